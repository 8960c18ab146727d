"""Why one query got its label, as one HTML page that works offline, light and dark, seen or read aloud.

Every number stands in a ``<data value="...">`` element whose value is the number of `Explanation.to_dict`,
and the whole of it is in the page as JSON (``<script type="application/json" id="explanation">``).
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from typing import Any

from residuum.estimators.explanation import Explanation
from residuum.reports.page import page
from residuum.reports.png import data_uri

# More rows than this are folded away (classes) or left to the JSON (atoms).
SHOWN = 20

STYLE = """
:root { --bar: #7d8793; --minus: #b3541e; }
@media (prefers-color-scheme: dark) { :root { --bar: #8b95a1; --minus: #f0a070; } }
.answer { font-size: 1.35rem; margin: 1.25rem 0 .5rem; }
p.notes { padding: 0; margin: .25rem 0; }
.answer strong { color: var(--accent); }
.strip { display: flex; flex-wrap: wrap; gap: 1.5rem; margin: 1rem 0 0; padding: 0; list-style: none; }
.strip figure { width: 9rem; }
.strip figcaption { display: block; margin: .35rem 0 0; overflow-wrap: anywhere; }
.strip img { width: 9rem; height: 9rem; }
img { display: block; object-fit: contain; background: var(--band); border: 1px solid var(--line); }
img.sharp { image-rendering: pixelated; }
td img { width: 3rem; height: 3rem; margin-left: auto; }
table td, table th { white-space: nowrap; }
th[scope=row] { min-width: 6rem; max-width: 22rem; text-align: left; }
th[scope=row] { white-space: normal; overflow-wrap: anywhere; }
td.text { text-align: left; white-space: normal; overflow-wrap: anywhere; max-width: 22rem; }
th.text { text-align: left; }
svg text { font: 13px system-ui, sans-serif; fill: var(--ink); unicode-bidi: isolate; }
svg .bar { fill: var(--bar); } svg .win { fill: var(--accent); } svg .minus { fill: var(--minus); }
svg .axis { stroke: var(--soft); }
summary { cursor: pointer; padding: .5rem 0; color: var(--accent); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
""".rstrip()


def explain_page(
    explanation: Explanation,
    *,
    query_image: Any = None,
    atom_images: Any = None,
    class_reconstructions: Mapping[Any, Any] | None = None,
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
    class_reconstructions : mapping, default=None
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
    rebuilt = {
        part["label"]: class_reconstructions[own.label]
        for part, own in zip(content["classes"], explanation.classes, strict=True)
        if class_reconstructions is not None and own.label in class_reconstructions
    }
    body = f"""<p class="answer">Answer: <strong>{_text(content["answer"])}</strong></p>
{"".join(f'<p class="notes">{_text(note)}</p>' for note in notes)}
{_pictures(content, query_image, rebuilt)}
{_section("Summary", f"<dl>{_summary(content)}</dl>")}
{_section("Classes", _classes(content, rebuilt))}
{_section("Training samples", _atoms(content, atom_images))}
{_section("Certificate", f"<dl>{_certificate(content)}</dl>")}
<script type="application/json" id="explanation">{_embedded(content)}</script>"""
    return page(_clean(title), _clean(title), _lead(content), body, style=STYLE)


def _lead(content: dict[str, Any]) -> str:
    winner = f"Class {_text(content['label'])}"
    if content["runner_up"] is None:
        found = f"{winner} is the only class there is."
    else:
        found = (
            f"{winner} leaves the smallest residual, {_number(content['classes'][0]['residual'])}; the "
            f"runner-up, class {_text(content['runner_up'])}, is {_number(content['margin'])} behind."
        )
    if content["rejected"]:
        found += (
            f" The {_text(content['reject']['by'])} of {_number(content['confidence'])} is below the "
            f"threshold of {_number(content['reject']['threshold'])}, so the answer is none of the classes."
        )
    return (
        "The query was written as a mixture of all training samples. The answer is the class whose samples "
        f"leave the least of the query unexplained. {found}"
    )


def _pictures(content: dict[str, Any], query: Any, rebuilt: dict[Any, Any]) -> str:
    figures = [] if query is None else [(query, "The query", "The query")]
    for label in (content["label"], content["runner_up"]):
        if label in rebuilt:
            told = f"What the samples of class {_clean(label)} make of the query"
            figures.append(
                (
                    rebuilt[label],
                    told,
                    f"Class {_clean(label)}: its part of the mixture, as bright as it is there",
                )
            )
    if not figures:
        return ""
    items = "".join(
        f"<li><figure>{_image(image, told)}<figcaption>{html.escape(caption)}</figcaption></figure></li>"
        for image, told, caption in figures
    )
    return _section("Pictures", f'<ul class="strip">{items}</ul>')


def _summary(content: dict[str, Any]) -> str:
    best = content["classes"][0]
    rows = [("Winning class", _text(content["label"]))]
    if content["runner_up"] is not None:
        rows += [("Runner-up", _text(content["runner_up"])), ("Margin", _number(content["margin"]))]
    if best["probability"] is not None:
        rows.append(("Probability of the winner", _number(best["probability"])))
    rejection = content["reject"]
    if rejection["threshold"] is not None:
        outcome = "rejected" if content["rejected"] else "accepted"
        rows.append(
            (
                f"Confidence ({rejection['by']})",
                f"{_number(content['confidence'])}, threshold {_number(rejection['threshold'])}: {outcome}",
            )
        )
    rows += [
        ("Method and rule", f"{_text(content['method'])}, {_text(content['rule'].replace('_', ' '))}"),
        ("Training samples used", _number(content["atoms_used"])),
    ]
    return _pairs(rows)


def _certificate(content: dict[str, Any]) -> str:
    found = content["certificate"]
    return _pairs(
        [
            ("Tolerance met", "yes" if found["converged"] else "no: these are the best numbers so far"),
            ("Optimality violated by", _number(found["violation"])),
            ("Objective above its minimum by at most", _number(found["gap"])),
            ("Iterations", _number(found["n_iter"])),
        ]
    )


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


def _classes(content: dict[str, Any], rebuilt: dict[Any, Any]) -> str:
    classes = content["classes"]
    with_probability = classes[0]["probability"] is not None
    bars = [(_clean(c["label"]), c["residual"], "win" if i == 0 else "bar") for i, c in enumerate(classes)]
    names = ["Class", "Residual", "Norm of its part", "Share"]
    names += ["Probability"] * with_probability + ["Its part, as a picture"] * bool(rebuilt)
    rows: list[tuple[str, list[str]]] = []
    for part in classes:
        cells = [_number(part["residual"]), _number(part["norm"]), _number(part["share"])]
        cells += [_number(part["probability"])] if with_probability else []
        if rebuilt:
            drawn = part["label"] in rebuilt and len(rows) < SHOWN
            told = f"Part of class {_clean(part['label'])}"
            cells.append(_image(rebuilt[part["label"]], told) if drawn else "")
        rows.append((_text(part["label"]), cells))
    shown = f"the {SHOWN} nearest of {len(classes)} classes" if len(classes) > SHOWN else "all classes"
    told = f"Residuals of {shown}, smallest first"
    explained = (
        f"<p>Residual: {MEANINGS.get(content['rule'], MEANINGS['residual'])}; the smallest wins. "
        "Share: how much of the whole reconstruction comes from this class; all shares add up to 1.</p>"
    )
    first = _table(told, names, rows[:SHOWN])
    rest = rows[SHOWN:]
    folded = ""
    if rest:
        told_rest = f"Residuals of the other {len(rest)} classes"
        folded = f"<details><summary>{told_rest}</summary>{_table(told_rest, names, rest)}</details>"
    return explained + _bars("classes", told, bars[:SHOWN]) + first + folded


def _atoms(content: dict[str, Any], images: Any) -> str:
    atoms = content["atoms"]
    if not atoms:
        return "<p>The code is zero: no training sample takes part.</p>"
    named = any(atom["name"] not in (None, str(atom["sample"])) for atom in atoms)
    bars, rows = [], []
    for atom in atoms[:SHOWN]:
        title = f"{atom['sample']}, class {_clean(atom['label'])}"
        bars.append((title, atom["coefficient"], "minus" if atom["coefficient"] < 0 else "win"))
        cells = [_number(atom["coefficient"]), _number(atom["share"])]
        if images is not None:
            cells.append(_image(images[atom["sample"]], f"Training sample {title}"))
        texts = [_text(atom["label"])] + ([_text(atom["name"] or "")] if named else [])
        rows.append((_number(atom["sample"]), [*texts, *cells]))
    names = ["Sample", "Class"] + ["Name"] * named + ["Coefficient", "Share"]
    names += ["Picture"] * (images is not None)
    told = f"Coefficients of {len(rows)} of the {content['atoms_used']} training samples used, largest first"
    explained = (
        "<p>Coefficient: the weight of this sample in the mixture. Share: its part of the reconstruction; "
        "below zero it works against the others.</p>"
    )
    return explained + _bars("atoms", told, bars) + _table(told, names, rows, texts={"Class", "Name"})


def _bars(name: str, told: str, bars: list[tuple[str, Any, str]]) -> str:
    """Horizontal bars as SVG: name, bar from zero, number; a bar that is infinite runs to the edge."""
    whole, right, step = 760, 80, 23
    left = 20 + 8.2 * max(len(_short(title)) for title, _, _ in bars)
    width = whole - left - right
    values = [float(value) for _, value, _ in bars]
    finite = [value for value in values if abs(value) != float("inf")]
    low, high = min([0.0, *finite]), max([0.0, *finite])
    scale = width / (high - low) if high > low else 0.0
    zero = left - low * scale
    lines = []
    for i, ((title, value, kind), number) in enumerate(zip(bars, values, strict=True)):
        length = left + width - zero if number == float("inf") else abs(number) * scale
        start = zero if number >= 0 else zero - length
        y = i * step
        lines.append(
            f'<text x="{left - 10:g}" y="{y + 16}" text-anchor="end">{html.escape(_short(title))}</text>'
            f'<rect class="{kind}" x="{start:.2f}" y="{y + 3}" width="{max(length, 1):.2f}" height="17"/>'
            f'<text x="{left + width + 10:g}" y="{y + 16}">{_digits(value)}</text>'
        )
    height = len(bars) * step
    axis = f'<line class="axis" x1="{zero:.2f}" y1="0" x2="{zero:.2f}" y2="{height}"/>'
    read = "; ".join(f"{title}: {_digits(value)}" for title, value, _ in bars)
    return (
        f'<figure><div class="wide" tabindex="0" role="region" aria-label="{html.escape(told)}, as bars">'
        f'<svg role="img" aria-labelledby="{name}-title {name}-desc" '
        f'viewBox="0 0 {whole} {height}">'
        f'<title id="{name}-title">{html.escape(told)}</title>'
        f'<desc id="{name}-desc">{html.escape(read)}</desc>{axis}{"".join(lines)}</svg></div></figure>'
    )


def _table(
    caption: str,
    names: Sequence[str],
    rows: list[tuple[str, list[str]]],
    texts: set[str] | frozenset[str] = frozenset(),
) -> str:
    """A table of finished HTML; the first column names the row."""
    kinds = [' class="text"' if name in texts else "" for name in names]
    heads = "".join(f'<th scope="col"{kind}>{name}</th>' for name, kind in zip(names, kinds, strict=True))
    body = "".join(
        f'<tr><th scope="row">{title}</th>'
        + "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(cells, kinds[1:], strict=True))
        + "</tr>"
        for title, cells in rows
    )
    told = html.escape(caption)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{told}, as a table"><table>'
        f"<caption>{told}</caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _section(heading: str, body: str) -> str:
    name = heading.lower().replace(" ", "-")
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{heading}</h2>{body}</section>'


def _pairs(rows: list[tuple[str, str]]) -> str:
    return "".join(f"<dt>{html.escape(name)}</dt><dd>{value}</dd>" for name, value in rows)


def _image(image: Any, told: str) -> str:
    # Squares for the pixels of a tiny image; a larger one may be smoothed.
    kind = ' class="sharp"' if max(image.shape[:2]) <= 48 else ""
    return f'<img{kind} src="{data_uri(image)}" alt="{html.escape(told)}">'


def _number(value: Any) -> str:
    """The number as the JSON has it, for machines, and in four digits, for people."""
    if value is None:
        return "not known"
    exact = value if isinstance(value, str) else json.dumps(value)
    return f'<data value="{exact}">{_digits(value)}</data>'


def _digits(value: Any) -> str:
    if isinstance(value, str):
        return {"inf": "∞", "-inf": "-∞"}[value]
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _clean(text: Any) -> str:
    """Text that can be written as UTF-8 and shown: no lone surrogates, no control characters."""
    text = str(text).encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(c if c.isprintable() or c == " " else "\N{REPLACEMENT CHARACTER}" for c in text)


def _text(value: Any) -> str:
    """Anyone's text as HTML, isolated so that its direction cannot turn what stands beside it."""
    return f"<bdi>{html.escape(_clean(value))}</bdi>"


def _short(text: str) -> str:
    return text if len(text) <= 26 else f"{text[:15]}…{text[-10:]}"


def _embedded(content: dict[str, Any]) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(content, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
