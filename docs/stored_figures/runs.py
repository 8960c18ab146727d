"""Stored runs of docs/data, and how a page shows them: a table, a paragraph, a line that says where from."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data"


def stored(name: str) -> dict[str, Any]:
    """One file of docs/data."""
    return json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


def table(heads: list[str], rows: list[list[str]], align: str = "---:") -> str:
    """Markdown."""
    lines = [heads, ["---"] + [align] * (len(heads) - 1), *rows]
    return "\n".join(
        "|" + "|".join(row) + "|" if row is lines[1] else f"| {' | '.join(row)} |" for row in lines
    )


def origin(run: dict[str, Any]) -> str:
    """One line under a table: when, where, with what else on the machine."""
    machine, load = run["machine"], run["load_average"]
    return (
        f"*`{run['command']}`, {run['date']}, commit {run['commit']}, {machine['cores']} cores"
        f" ({machine['cpu']}), load average {load[0]}.*"
    )


def paragraph(*parts: str) -> str:
    """One paragraph of Markdown, its lines broken."""
    return textwrap.fill(" ".join(parts), 130, break_on_hyphens=False, break_long_words=False)
