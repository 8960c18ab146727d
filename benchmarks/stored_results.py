"""Store what a run folder of `residuum reproduce` found: which test samples every method gets wrong.

    python benchmarks/stored_results.py docs/data FOLDER --command "residuum reproduce table2"

writes one file for each table and protocol (results_table2_published.json), and one for Table 5 and each
figure. All of docs/results.md follows from them: `python docs/numbers_in_text.py` writes it. The labels and
the images of the data sets are not ours to pass on and are not stored.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

import numpy as np
from stored import origin

from residuum.experiments.runner import CELLS, read_cell
from residuum.paper.outcomes import Outcome
from residuum.paper.report import read_contents
from residuum.system.files import write_text
from residuum.system.json_text import to_json


def wrong(hits: np.ndarray) -> str:
    """Places of the test samples that are wrong, as text: one line instead of one for each."""
    return " ".join(map(str, np.flatnonzero(~hits)))


def outcome_content(outcome: Outcome) -> dict[str, Any]:
    """One table under one protocol."""
    cells = [
        {
            "row": row,
            "method": method,
            "tested": [len(hit) for _, hit in sorted(hits.items())],
            "wrong": [wrong(hit) for _, hit in sorted(hits.items())],  # trial by trial
            "parameters": outcome.parameters[row, method],
        }
        for (row, method), hits in outcome.hits.items()
    ]
    return {
        "table": outcome.table.name,
        "protocol": outcome.protocol,
        "quick": outcome.quick,
        "notes": [[row, *notes] for row, notes in outcome.notes.items()],
        "cells": cells,
    }


def extra_content(extra: dict[str, Any]) -> dict[str, Any]:
    """Table 5 without labels, or a figure as it is."""
    if "cells" not in extra:
        return extra
    labels = np.array(extra["labels"])
    cells = {
        method: {name: value for name, value in cell.items() if name != "predictions"}
        | {"wrong": wrong(np.array(cell["predictions"]) == labels)}
        for method, cell in extra["cells"].items()
    }
    return {name: value for name, value in extra.items() if name != "labels"} | {"cells": cells}


def last_cell(folders: list[Path], pattern: str) -> dict[str, Any]:
    """The newest cell, which says when and on which machine the run ended."""
    paths = [path for folder in folders for path in (folder / CELLS).glob(pattern)]
    return read_cell(max(paths, key=lambda path: path.stat().st_mtime)) or {}


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--command", required=True, help="What made the folders.")
    args = parser.parse_args()
    contents, facts = read_contents(args.folders), origin(shlex.split(args.command))
    for outcome in contents.outcomes:
        cell = last_cell(args.folders, f"{outcome.table.name}/*/trial-*-{outcome.protocol}-*.json")
        run = facts | {"date": cell["created"], "machine": cell["machine"]}
        name = f"results_{outcome.table.name}_{outcome.protocol}.json"
        write_text(args.out / name, to_json(run | outcome_content(outcome)))
    for name, extra in contents.extras.items():
        run = facts | {"date": extra["created"]}
        write_text(args.out / f"results_{name}.json", to_json(run | extra_content(extra)))


if __name__ == "__main__":
    main()
