"""The accuracies of docs/results.md, read from its tables: protocol -> row -> method -> per cent."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "results.md"
NAMES = {"table2": "faces (Yale B)", "table3": "digits (USPS)", "table4": "digits (MNIST)"}
KINDS = {
    "SRC": "sparse",
    "CRC": "collaborative",
    "CROC": "collaborative",
    "ProCRC": "collaborative",
    "NRC": "non-negative",
    "SoftNRC": "non-negative",
}


def read_results():
    """``{"paper" | "published" | "authors" | "best": {row: {method: accuracy}}}``, rows as on the page."""
    found = {"paper": {}}
    for section in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE):
        head = re.match(r"(Table[234]): .*\((published|authors|best)\)", section)
        if not head:
            continue
        table, protocol = head[1].lower(), head[2]
        lines = [line.strip("|\n ").split("|") for line in section.splitlines() if line.startswith("|")]
        methods = [cell.strip() for cell in section.splitlines()[2].strip("|").split("|")[1:]]
        for cells in lines[2:]:
            name = re.fullmatch(r"([dn] = \d+), (paper|ours)", cells[0].strip())
            if not name:
                continue
            row = f"{NAMES[table]}, {name[1]}"
            values = [re.match(r"[*\s]*([\d.]+)", cell) for cell in cells[1:]]
            kept = {m: float(value[1]) for m, value in zip(methods, values, strict=False) if value}
            found.setdefault("paper" if name[2] == "paper" else protocol, {})[row] = kept
    return found
