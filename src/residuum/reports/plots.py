"""Figures as SVG inside a page: without fonts and addresses, in colours that suit a light and a dark page.

Lines and texts are drawn in ``currentColor`` on a transparent background. matplotlib is imported inside the
functions because it is slow to load.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from residuum.reports.numbers import one_decimal

if TYPE_CHECKING:
    from markupsafe import Markup

# A colour that no figure uses; in the SVG it becomes the text colour of the page.
INK = "#010203"
# Ten hues of middle lightness, readable on white and on almost black.
COLOURS = ["#4c8bd6", "#e07b1a", "#35a35c", "#dc5151", "#9a75d1"]
COLOURS += ["#a87559", "#d46fb4", "#8a8f98", "#a9a21d", "#1fa9bd"]
# Where classes are coloured by their rank, so many have a colour of their own.
RANKS, OTHERS = 5, "#8a8f98"

_MOST_NAMES = 45  # of classes below an axis, one beside the other


def coefficient_figure(illustration: dict[str, Any]) -> Markup:
    """One query coded by SRC, CRC and NRC: a line per training sample, coloured by class (Figure 1)."""
    labels = np.array(illustration["atom_labels"])
    named = _named_classes(labels, list(illustration["codes"].values()), illustration["label"])
    longest = max(len(text) for text in named.values()) if len(named) > 12 else 0
    with _figure("coefficients", 9.0, 6.2 + 0.08 * longest) as figure:
        described = []
        axes = figure.subplots(len(illustration["codes"]), 1, sharex=True)
        for axis, (method, values) in zip(axes, illustration["codes"].items(), strict=True):
            code, prediction = np.array(values), illustration["predictions"][method]
            draw_code(axis, code, labels)
            used, size = np.count_nonzero(code), np.abs(code).sum() or 1.0
            axis.set_title(
                f"{method}: predicts {prediction}, {used} of {len(code)} coefficients used, "
                f"{100 * np.abs(code[code < 0]).sum() / size:.0f} % of their size negative",
                loc="left",
            )
            described.append(f"{method} uses {used} and predicts {prediction}")
        _label_classes(axes[-1], labels, named)
        return _svg(
            figure,
            f"Coefficients of one query of class {illustration['label']} over {len(labels)} training "
            f"samples sorted by class: {', '.join(described)}.",
        )


def draw_code(axis: Any, code: np.ndarray, labels: np.ndarray, ink: str = INK) -> None:
    """A line per training sample, coloured by class, with a border between classes."""
    for (_, own), colour in zip(_classes(labels), cycle(COLOURS)):
        if own[0]:
            axis.axvline(own[0] - 0.5, color=ink, linewidth=0.4, alpha=0.25)
        used = own[code[own] != 0]
        axis.vlines(used, 0, code[used], colors=colour, linewidth=1.6)
    axis.axhline(0, color=ink, linewidth=0.6)
    axis.set_ylabel("coefficient")
    axis.margins(x=0.01)


def draw_ranked_bars(axis: Any, names: Sequence[str], values: np.ndarray, ranks: Iterable[int]) -> Any:
    """Horizontal bars from the top, each in the colour of the rank of its class: winner, runner-up, others.

    An infinite bar runs beyond the edge. Returns the bars.
    """
    finite = values[np.isfinite(values)]
    most = 1.15 * float(np.abs(finite).max(initial=0.0)) or 1.0
    colours = [COLOURS[rank] if rank < RANKS else OTHERS for rank in ranks]
    bars = axis.barh(range(len(names)), np.clip(values, -2 * most, 2 * most), color=colours, height=0.75)
    axis.set_yticks(range(len(names)), [name if len(name) <= 32 else f"{name[:31]}…" for name in names])
    axis.invert_yaxis()
    low = -most if (finite < 0).any() else 0.0
    axis.set_xlim(low, most if (values > 0).any() or not low else 0.05 * most)
    for text in axis.get_yticklabels():
        text.set_parse_math(False)
    for spine in ("top", "right"):
        axis.spines[spine].set_visible(False)
    axis.bar_label(bars, [f"{value:.3g}" for value in values], padding=3, fontsize="small")
    return bars


def _named_classes(labels: np.ndarray, codes: list[Any], own: Any) -> dict[Any, str]:
    """The classes that have room for their name, which is cut where it is long.

    Where there is no room for all, the own class of the query comes first, then those with the largest
    coefficients.
    """
    classes = _classes(labels)
    size = np.max(np.abs(np.array(codes, dtype=float)), axis=0)  # (n_atoms,)
    weight = {label: (label == own, float(size[places].max())) for label, places in classes}
    room = len(labels) / _MOST_NAMES
    taken: dict[Any, float] = {}
    for label, places in sorted(classes, key=lambda each: weight[each[0]], reverse=True):
        middle = float(places.mean())
        if all(abs(middle - other) >= room for other in taken.values()):
            taken[label] = middle
    return {k: name if len(name := str(k)) <= 24 else f"{name[:15]}…{name[-8:]}" for k in taken}


def _label_classes(axis: Any, labels: np.ndarray, named: dict[Any, str]) -> None:
    colours = dict(zip((label for label, _ in _classes(labels)), cycle(COLOURS)))
    shown = [(label, own.mean()) for label, own in _classes(labels) if label in named]
    axis.set_xticks([middle for _, middle in shown], [named[label] for label, _ in shown])
    # Upright names take as much room as they are long: 100 letters fill the axis.
    upright = sum(len(text) + 1 for text in named.values()) <= 100
    axis.tick_params(axis="x", length=0, labelrotation=0 if upright else 90)
    for text, (label, _) in zip(axis.get_xticklabels(), shown, strict=True):
        text.set(color=colours[label], fontweight="bold")
    all_named = len(named) == len(colours)
    axis.set_xlabel(
        "training samples, by class"
        + ("" if all_named else f"; {len(named)} of {len(colours)} classes are named")
    )


def _classes(labels: np.ndarray) -> list[tuple[Any, np.ndarray]]:
    """Every label in order, with the positions of its samples."""
    return [(label, np.flatnonzero(labels == label)) for label in dict.fromkeys(labels.tolist())]


def convergence_figure(illustration: dict[str, Any]) -> Markup:
    """The three differences that ADMM drives to zero, step by step (Figure 2)."""
    curves, stop = illustration["curves"], illustration["published_steps"]
    with _figure("convergence", 9.0, 3.6) as figure:
        axis = figure.subplots()
        for (name, curve), colour, style in zip(curves.items(), COLOURS, ("-", "--", ":")):
            steps = range(1, len(curve) + 1)
            axis.semilogy(steps, curve, style, color=colour, linewidth=1.8, label=f"max |{name}|")
        axis.axvline(stop, color=INK, linewidth=0.8, alpha=0.6)
        note = f"NRC as published stops at step {stop}"
        axis.text(stop + 0.8, 0.97, note, transform=axis.get_xaxis_transform(), va="top")
        axis.set(xlabel="step of ADMM", ylabel="largest difference")
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")  # plain text, as mathematics is off
        axis.yaxis.set_minor_formatter("")
        axis.margins(x=0.01)
        axis.legend(frameon=False, loc="upper right")
        ends = ", ".join(f"max |{name}| is {curve[-1]:.1e}" for name, curve in curves.items())
        return _svg(
            figure,
            f"Largest differences between the iterates of ADMM over {len(steps)} steps, on a logarithmic "
            f"scale. At the last step {ends}.",
        )


def accuracy_figure(name: str, axis_name: str, rows: list[int], curves: dict[str, dict[str, Any]]) -> Markup:
    """Accuracy in per cent against d or n: ours with one standard deviation, the paper's beside it, dashed.

    Parameters
    ----------
    name : str
        Distinguishes the figures of a page.
    axis_name : str
        What the rows are.
    rows : list of int
        Values on the horizontal axis.
    curves : dict
        Method -> ``ours`` and ``deviation`` (one value per row; None where missing) and ``paper``.
    """
    with _figure(name, 9.0, 4.4) as figure:
        axis = figure.subplots()
        for (method, curve), colour in zip(curves.items(), cycle(COLOURS)):
            ours = np.array(curve["ours"], dtype=float)  # None becomes nan, which is not drawn
            spread = np.nan_to_num(np.array(curve["deviation"], dtype=float))
            style: Any = {"color": colour, "linewidth": 1.7, "marker": "o", "ms": 4}
            axis.errorbar(rows, ours, yerr=spread, capsize=2, **style)
            axis.plot([], [], label=method, **style)
            if curve["paper"] is not None:
                axis.plot(rows, curve["paper"], "--", color=colour, linewidth=1.0, alpha=0.75)
        axis.set_xscale("log")
        axis.set_xticks(rows, [str(row) for row in rows])
        axis.minorticks_off()
        axis.set(xlabel=axis_name, ylabel="accuracy, per cent")
        axis.legend(frameon=False, ncols=2)
        values = "; ".join(
            f"{method}: {', '.join(one_decimal(value) or 'missing' for value in curve['ours'])}"
            for method, curve in curves.items()
        )
        return _svg(figure, f"Accuracy in per cent at {axis_name} = {', '.join(map(str, rows))}. {values}.")


@contextmanager
def _figure(name: str, width: float, height: float) -> Iterator[Any]:
    """An empty figure, and the style under which it is drawn and saved."""
    import matplotlib
    from matplotlib.figure import Figure

    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    style: Any = {
        **dict.fromkeys(inked, INK),
        **dict.fromkeys(("axes.facecolor", "figure.facecolor", "savefig.facecolor"), "none"),
        **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
        **dict.fromkeys(("axes.titlesize", "font.size"), 10),
        "svg.fonttype": "none",
        "text.parse_math": False,  # a dollar sign in the name of a class is a dollar sign
        # The salt makes the names inside the SVG reproducible, and different in each figure of a page.
        "svg.hashsalt": name,
    }
    with matplotlib.rc_context(style):
        yield Figure(figsize=(width, height), layout="constrained")


def _svg(figure: Any, description: str) -> Markup:
    """The figure as an ``<svg>`` element with a text alternative."""
    from markupsafe import Markup, escape

    buffer = io.StringIO()
    with warnings.catch_warnings():
        # Text stays text in the SVG and the browser draws it: its font may have what matplotlib's lacks.
        warnings.filterwarnings("ignore", r"Glyph .* missing from font")
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    opening, inside = buffer.getvalue().split("<svg", 1)[1].split(">", 1)
    opening = re.sub(r'\s(width|height)="[^"]*"', "", opening)
    text = re.sub(r"<metadata>.*?</metadata>", "", f"<svg{opening}>{inside}", flags=re.DOTALL)
    # HTML knows the name spaces of SVG; without their addresses the page contains no address at all.
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text).replace("xlink:href", "href")
    text = text.replace(INK, "currentColor").replace("'DejaVu Sans'", "system-ui")
    return Markup(text.replace("<svg", f'<svg role="img" aria-label="{escape(description)}"', 1))
