"""Why one query got its label, as one HTML page that works offline, light and dark, seen or read aloud.

Every number stands in a ``<data value="...">`` element whose value is the number of `Explanation.to_dict`,
and the whole of it is in the page as JSON (``<script type="application/json" id="explanation">``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from residuum.explain.rows import ExplainedRow
from residuum.explain.text import ending, has_names, has_probabilities
from residuum.reports.page import render

# More rows than this are folded away (classes) or left to the JSON (atoms).
SHOWN = 20


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
    atoms = content["atoms"][:SHOWN]
    names = [f"{atom['sample']}, class {atom['label']}" for atom in atoms]
    labels = [part.label for part in row.explanation.classes[:SHOWN]]
    return render(
        "explanation.html",
        title=title,
        notes=(*notes, *row.notes),
        content=content,
        ending=ending(content["certificate"]),
        shown=SHOWN,
        with_probability=has_probabilities(content),
        with_names=has_names(content),
        class_bars=_bars(labels, [part["residual"] for part in content["classes"][:SHOWN]]),
        atom_bars=_bars(names, [atom["coefficient"] for atom in atoms]) if atoms else None,
        query_image=row.query_image,
        atom_images=row.atom_images,
        class_images=[(row.class_images or {}).get(label) for label in labels],
    )


def _bars(names: Sequence[Any], values: Sequence[Any]) -> dict[str, Any]:
    """Places in a drawing of horizontal bars from zero; an infinite bar ("inf") runs to the edge."""
    short = [text if len(text) <= 26 else f"{text[:15]}…{text[-10:]}" for text in map(str, names)]
    left, edge = 20 + 8.2 * max(map(len, short)), 680
    numbers = [float(value) for value in values]
    finite = [0.0, *filter(math.isfinite, numbers)]
    scale = (edge - left) / ((max(finite) - min(finite)) or math.inf)
    zero = left - min(finite) * scale
    lengths = [edge - zero if number == math.inf else abs(number) * scale for number in numbers]
    starts = [zero - length * (number < 0) for number, length in zip(numbers, lengths, strict=True)]
    bars = zip(names, short, values, starts, lengths, strict=True)
    return {"bars": list(bars), "left": left, "zero": zero, "edge": edge}
