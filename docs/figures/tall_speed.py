"""The table of tall least squares in docs/measurements.md as bars: how much more time the others take."""

import re
from pathlib import Path

from residuum.reports.plots import COLOURS

SIZE = (7.6, 9.0)
PAGE = Path(__file__).parents[1] / "measurements.md"


def rows():
    """``[(problem, {solver: microseconds})]``, from the first table under the heading that has residuum."""
    section = PAGE.read_text().split("## Tall least squares\n")[1].split("\n## ")[0]
    lines = [
        [cell.strip(" *") for cell in line.strip("|").split("|")]
        for line in re.findall(r"^\|.*", section, re.M)
    ]
    head = next(line for line in lines if "residuum" in line)
    found = []
    for line in lines[lines.index(head) + 2 :]:
        if len(line) != len(head):
            break
        numbers = {
            name: float(cell.replace(",", ""))
            for name, cell in zip(head, line)
            if re.fullmatch(r"[\d.,]+", cell)
        }
        if "residuum" in numbers:
            found.append((line[0], numbers))
    return found


def draw(figure):
    table = rows()
    peers = [
        name for name in ("SPAMS", "daqp", "SciPy", "cvxopt") if any(name in numbers for _, numbers in table)
    ]
    axis, height, said = figure.subplots(), 0.8 / len(peers), []
    for k, (peer, colour) in enumerate(zip(peers, COLOURS)):
        places = [i for i, (_, numbers) in enumerate(table) if peer in numbers]
        ratios = [table[i][1][peer] / table[i][1]["residuum"] for i in places]
        bars = axis.barh([i + k * height for i in places], ratios, height, color=colour, label=peer)
        axis.bar_label(bars, fmt="%.3g", padding=2, fontsize=7)
        said.append(f"{peer} takes {min(ratios):.2g} to {max(ratios):.2g} times as long")
    axis.set_xscale("log")
    axis.set_yticks([i + 0.4 - height / 2 for i in range(len(table))], [name for name, _ in table])
    axis.invert_yaxis()
    axis.axvline(1, linewidth=0.8, color="#010203")
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_xlabel("time relative to residuum")
    axis.set_xlim(right=400)
    figure.legend(frameon=False, loc="outside upper center", ncols=len(peers))
    return f"Bars for {len(table)} problems: " + ", ".join(said) + "."
