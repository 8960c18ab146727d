"""Figures as SVG inside a page: without fonts and addresses, in colours that suit a light and a dark page.

Lines and texts are drawn in ``currentColor`` on a transparent background. matplotlib is imported inside the
functions because it is slow to load.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from residuum.reports.numbers import one_decimal

if TYPE_CHECKING:
    from markupsafe import Markup

# A colour that no figure uses; in the SVG it becomes the text colour of the page.
INK = "#010203"
# Ten hues of middle lightness, readable on white and on almost black.
CLASS_COLOURS = (
    "#4c8bd6",
    "#e07b1a",
    "#35a35c",
    "#dc5151",
    "#9a75d1",
    "#a87559",
    "#d46fb4",
    "#8a8f98",
    "#a9a21d",
    "#1fa9bd",
)
CURVE_STYLES = (("#4c8bd6", "-"), ("#e07b1a", "--"), ("#35a35c", ":"))


def coefficient_figure(illustration: dict[str, Any]) -> Markup:
    """One query coded by SRC, CRC and NRC: a line per training sample, coloured by class (Figure 1)."""
    labels = np.array(illustration["atom_labels"])
    codes = {method: np.array(code) for method, code in illustration["codes"].items()}
    predictions = illustration["predictions"]
    with _figure("coefficients", 9.0, 6.2) as figure:
        axes = figure.subplots(len(codes), 1, sharex=True)
        for axis, (method, code) in zip(axes, codes.items(), strict=True):
            _draw_code(axis, code, labels)
            axis.set_title(
                f"{method}: predicts {predictions[method]}, {np.count_nonzero(code)} of {len(code)} "
                f"coefficients used, {100 * _negative_part(code):.0f} % of their size negative",
                loc="left",
            )
        _label_classes(axes[-1], labels)
        described = ", ".join(
            f"{method} uses {np.count_nonzero(code)} and predicts {predictions[method]}"
            for method, code in codes.items()
        )
        return _svg(
            figure,
            f"Coefficients of one query of class {illustration['label']} over {len(labels)} training "
            f"samples sorted by class: {described}.",
        )


def _draw_code(axis: Any, code: np.ndarray, labels: np.ndarray) -> None:
    for k, label in enumerate(_in_order(labels)):
        own = np.flatnonzero(labels == label)
        if k:
            axis.axvline(own[0] - 0.5, color=INK, linewidth=0.4, alpha=0.25)
        used = own[code[own] != 0]
        axis.vlines(used, 0, code[used], colors=CLASS_COLOURS[k % len(CLASS_COLOURS)], linewidth=1.6)
    axis.axhline(0, color=INK, linewidth=0.6)
    axis.set_ylabel("coefficient")
    axis.margins(x=0.01)


def _label_classes(axis: Any, labels: np.ndarray) -> None:
    classes = _in_order(labels)
    axis.set_xticks([np.flatnonzero(labels == label).mean() for label in classes], [str(k) for k in classes])
    axis.tick_params(axis="x", length=0)
    for k, text in enumerate(axis.get_xticklabels()):
        text.set_color(CLASS_COLOURS[k % len(CLASS_COLOURS)])
        text.set_fontweight("bold")
    axis.set_xlabel("training samples, by class")


def _in_order(labels: np.ndarray) -> list[Any]:
    return list(dict.fromkeys(labels.tolist()))


def _negative_part(code: np.ndarray) -> float:
    size = float(np.abs(code).sum())
    return float(np.abs(code[code < 0]).sum()) / size if size else 0.0


def convergence_figure(illustration: dict[str, Any]) -> Markup:
    """The three differences that ADMM drives to zero, step by step (Figure 2)."""
    curves, stop = illustration["curves"], illustration["published_steps"]
    with _figure("convergence", 9.0, 3.6) as figure:
        axis = figure.subplots()
        for (name, curve), (colour, style) in zip(curves.items(), CURVE_STYLES, strict=True):
            steps = range(1, len(curve) + 1)
            axis.semilogy(steps, curve, style, color=colour, linewidth=1.8, label=f"max |{name}|")
        axis.axvline(stop, color=INK, linewidth=0.8, alpha=0.6)
        note = f"NRC as published stops at step {stop}"
        axis.text(stop + 0.8, 0.97, note, transform=axis.get_xaxis_transform(), va="top")
        axis.set_xlabel("step of ADMM")
        axis.set_ylabel("largest difference")
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
        for k, (method, curve) in enumerate(curves.items()):
            colour = CLASS_COLOURS[k % len(CLASS_COLOURS)]
            ours = np.array(curve["ours"], dtype=float)  # None becomes nan, which is not drawn
            spread = np.nan_to_num(np.array(curve["deviation"], dtype=float))
            axis.errorbar(rows, ours, yerr=spread, color=colour, linewidth=1.7, capsize=2, marker="o", ms=4)
            axis.plot([], [], color=colour, linewidth=1.7, marker="o", ms=4, label=method)
            if curve["paper"] is not None:
                axis.plot(rows, curve["paper"], "--", color=colour, linewidth=1.0, alpha=0.75)
        axis.set_xscale("log")
        axis.set_xticks(rows, [str(row) for row in rows])
        axis.minorticks_off()
        axis.set_xlabel(axis_name)
        axis.set_ylabel("accuracy, per cent")
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
        "axes.facecolor": "none",
        "figure.facecolor": "none",
        "savefig.facecolor": "none",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 10,
        "font.size": 10,
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
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # HTML knows the name spaces of SVG; without their addresses the page contains no address at all.
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text).replace("xlink:href", "href")
    for side in ("width", "height"):
        text = re.sub(rf'(<svg[^>]*?)\s{side}="[^"]*"', r"\1", text, count=1)
    text = text.replace(INK, "currentColor").replace("'DejaVu Sans'", "system-ui")
    return Markup(text.replace("<svg", f'<svg role="img" aria-label="{escape(description)}"', 1))
