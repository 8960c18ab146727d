"""Why one query got its label, as one HTML page that works offline, light and dark, seen or read aloud.

Every number stands in a ``<data value="...">`` element whose value is the number of `Explanation.to_dict`,
and the whole of it is in the page as JSON (``<script type="application/json" id="explanation">``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from os.path import commonprefix
from typing import Any

from residuum.explain.rows import ExplainedRow
from residuum.explain.text import called, ending, has_probabilities, sample_heading
from residuum.reports.numbers import score_name
from residuum.reports.page import render

# More rows than this are folded away (classes) or left to the JSON (atoms).
SHOWN = 20
# So many classes have a colour of their own, the nearest ones.
COLOURED = 5
RIVALS = 3  # classes beside the winner whose parts are drawn large


def explanation_page(row: ExplainedRow, *, title: str = "Why this answer", notes: Sequence[str] = ()) -> str:
    """One self-contained HTML page; write it as UTF-8.

    Parameters
    ----------
    row : ExplainedRow
        From `explain_row`, or made from ``classifier.explain(query)``.
    title : str, default="Why this answer"
        Heading and title of the page.
    notes : sequence of str, default=()
        Lines under the answer, such as the true class, before those of the row.
    """
    content = row.explanation.to_dict()
    atoms, heading = content["atoms"][:SHOWN], sample_heading(content)
    names = [_bar_name(atom, heading) for atom in atoms]
    labels = [part.label for part in row.explanation.classes[:SHOWN]]
    score = score_name(content["rule"])
    ranks = {part["label"]: k for k, part in enumerate(content["classes"])}
    return render(
        "explanation.html",
        title=title,
        score=score[0].upper() + score[1:],
        score_words=score,
        notes=(*notes, *row.notes),
        content=content,
        ending=ending(content["certificate"]),
        shown=SHOWN,
        with_probability=has_probabilities(content),
        heading=heading,
        called=called,
        colours={label: f"k{rank}" if rank < COLOURED else "kx" for label, rank in ranks.items()},
        rivals=RIVALS,
        class_bars=_bars(labels, [part["residual"] for part in content["classes"][:SHOWN]], labels),
        atom_bars=_bars(names, [a["coefficient"] for a in atoms], [a["label"] for a in atoms])
        if atoms
        else None,
        comparison=row.comparison,
        query_image=row.query_image,
        atom_images=row.atom_images,
        class_images=[(row.class_images or {}).get(label) for label in labels],
    )


def _bar_name(atom: dict[str, Any], heading: str) -> str:
    """Row and class; the name of a file alone where its folder is its class, which the colour tells."""
    name, folder = called(atom), f"{atom['label']}/"
    return name.removeprefix(folder) if name.startswith(folder) else f"{heading} {name}, {atom['label']}"


def _shortened(names: list[str], most: int = 26) -> list[str]:
    """Names that fit beside a bar: long ones lose what all have in common, then their middle."""
    if len(names) > 1 and max(map(len, names)) > most:
        start = len(commonprefix(names))  # noqa: RUF071  (of characters)
        end = len(commonprefix([name[start:][::-1] for name in names]))  # noqa: RUF071
        start, end = (count if count > 3 else 0 for count in (start, end))
        cut = [name[start : len(name) - end] for name in names]
        names = [f"{'…' * bool(start)}{name}{'…' * bool(end)}" for name in cut]
    half = most // 2 - 1
    return [name if len(name) <= most else f"{name[: half + 2]}…{name[2 - half :]}" for name in names]


def _bars(names: Sequence[Any], values: Sequence[Any], labels: Sequence[Any]) -> dict[str, Any]:
    """Places in a drawing of horizontal bars from zero; an infinite bar ("inf") runs to the edge."""
    short = _shortened([str(name) for name in names])
    left, edge = 90 + 8.2 * max(map(len, short)), 750  # names and numbers first: a narrow page shows these
    numbers = [float(value) for value in values]
    finite = [0.0, *filter(math.isfinite, numbers)]
    scale = (edge - left) / ((max(finite) - min(finite)) or math.inf)
    zero = left - min(finite) * scale
    lengths = [edge - zero if number == math.inf else abs(number) * scale for number in numbers]
    starts = [zero - length * (number < 0) for number, length in zip(numbers, lengths, strict=True)]
    bars = zip(names, short, values, starts, lengths, labels, strict=True)
    return {"bars": list(bars), "left": left, "zero": zero, "edge": edge}
