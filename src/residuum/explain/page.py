"""Why one query got its label, as one HTML page that works offline, light and dark, seen or read aloud.

Every number stands in a ``<data value="...">`` element whose value is the number of `Explanation.to_dict`,
and the whole of it is in the page as JSON (``<script type="application/json" id="explanation">``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from residuum.estimators.explanation import Explanation
from residuum.explain.text import has_names, has_probabilities
from residuum.reports.page import render

# More rows than this are folded away (classes) or left to the JSON (atoms).
SHOWN = 20

# What the residual of a class is, by rule; a classifier with a score of its own has no rule.
MEANINGS = {
    "residual": "what is left of the query after the part of this class",
    "scaled_residual": (
        "what is left of the query after the part of this class, divided by the size of its coefficients"
    ),
    "reconstruction": "what is left of the whole mixture after the part of this class",
    "relative_residual": (
        "what is left of the query after the part of this class, divided by the size of that part"
    ),
}


def explanation_page(
    explanation: Explanation,
    *,
    query_image: Any = None,
    atom_images: Any = None,
    class_images: Mapping[Any, Any] | None = None,
    title: str = "Why this answer",
    notes: Sequence[str] = (),
) -> str:
    """One self-contained HTML page.

    Parameters
    ----------
    explanation : Explanation
        From ``classifier.explain(query)``.
    query_image : array of uint8, shape (h, w) or (h, w, 3), default=None
        The query where it is an image.
    atom_images : array or mapping, default=None
        ``atom_images[i]`` is the image of training sample i.
    class_images : mapping, default=None
        Label -> image of ``X_k c_k``, what the samples of that class make of the query.
    title : str, default="Why this answer"
        Heading and title of the page.
    notes : sequence of str, default=()
        Lines under the answer, such as the true class, or what could not be shown.

    Returns
    -------
    page : str
        HTML; write it as UTF-8.
    """
    content = explanation.to_dict()
    classes, atoms = content["classes"][:SHOWN], content["atoms"][:SHOWN]
    class_bars = [(part["label"], part["residual"], "bar" if i else "win") for i, part in enumerate(classes)]
    atom_bars = [
        (_atom_name(atom), atom["coefficient"], "minus" if atom["coefficient"] < 0 else "win")
        for atom in atoms
    ]
    return render(
        "explanation.html",
        title=title,
        notes=notes,
        content=content,
        shown=SHOWN,
        meaning=MEANINGS.get(content["rule"], MEANINGS["residual"]),
        with_probability=has_probabilities(content),
        with_names=has_names(content),
        class_bars=_bars(class_bars),
        atom_bars=_bars(atom_bars) if atoms else None,
        query_image=query_image,
        atom_images=atom_images,
        class_images=[(class_images or {}).get(part.label) for part in explanation.classes[:SHOWN]],
    )


def _atom_name(atom: dict[str, Any]) -> str:
    return f"{atom['sample']}, class {atom['label']}"


def _bars(bars: Sequence[tuple[Any, Any, str]]) -> dict[str, Any]:
    """Places of horizontal bars in a drawing: name, bar from zero, number; an infinite bar runs to the edge.

    Each of `bars` is its name, its value (a number, or the text "inf") and its kind.
    """
    whole, right, step = 760, 80, 23
    names = [_short(str(name)) for name, _, _ in bars]
    left = 20 + 8.2 * max(map(len, names))
    edge = whole - right
    values = [float(value) for _, value, _ in bars]
    finite = [0.0, *filter(math.isfinite, values)]
    low, high = min(finite), max(finite)
    scale = (edge - left) / (high - low) if high > low else 0.0
    zero = left - low * scale
    drawn = []
    for i, ((full_name, value, kind), name, number) in enumerate(zip(bars, names, values, strict=True)):
        length = edge - zero if number == math.inf else abs(number) * scale
        start = zero if number >= 0 else zero - length
        drawn.append(
            {
                "full_name": full_name,
                "name": name,
                "value": value,
                "kind": kind,
                "x": f"{start:.2f}",
                "y": i * step,
                "width": f"{max(length, 1):.2f}",
            }
        )
    return {
        "bars": drawn,
        "width": whole,
        "height": len(bars) * step,
        "names_end": f"{left - 10:g}",
        "zero": f"{zero:.2f}",
        "numbers_begin": edge + 10,
    }


def _short(text: str) -> str:
    return text if len(text) <= 26 else f"{text[:15]}…{text[-10:]}"
