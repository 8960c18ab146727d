"""Options that several commands share; `residuum.cli.input_output` reads the data they name."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

FILE = click.Path(path_type=Path)
DELIMITERS = {"comma": ",", ",": ",", "semicolon": ";", ";": ";", "tab": "\t", "bar": "|", "|": "|"}

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _together(*options: Decorator) -> Decorator:
    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def _image_shape(_context: Any, parameter: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    height, _, width = value.lower().replace("×", "x").partition("x")
    if not (height.isdecimal() and width.isdecimal() and int(height) * int(width)):
        raise click.BadParameter(f"{value!r} must be HEIGHTxWIDTH, such as 32x32.", param=parameter)
    return int(height), int(width)


def _encoding(_context: Any, parameter: click.Parameter, value: str) -> str:
    try:
        codecs.lookup(value)
    except LookupError:
        raise click.BadParameter(f"{value!r} is not known to Python.", param=parameter) from None
    return value


# Every command that reads a table has these; `input_output` takes their values out again.
reading_options = _together(
    click.option("--label", metavar="COLUMN", help="Label column by name or position (-1: the last)."),
    click.option("--drop", metavar="A,B,...", multiple=True, help="Columns to leave out."),
    click.option(
        "--labels", type=FILE, help="File of labels for a .npy file: .npy, or .txt with a label in each line."
    ),
    click.option(
        "--header/--no-header", default=None, help="First line of a text table.  [default: guessed]"
    ),
    click.option(
        "--delimiter",
        type=click.Choice(list(DELIMITERS)),
        metavar="MARK",
        help="comma, semicolon, tab or bar.",
    ),
    click.option("--decimal", type=click.Choice([".", ","]), help="Decimal mark of a text table."),
    click.option(
        "--encoding",
        default="utf-8",
        callback=_encoding,
        show_default=True,
        help="Encoding of a text table.",
    ),
    click.option("--sheet", metavar="NAME", help="Sheet of a workbook.  [default: the first]"),
    click.option(
        "--missing",
        type=click.Choice(["error", "drop", "impute"]),
        help="A missing value: stop and name it, leave the row out, or fill it in as the training samples "
        "suggest.  [default: impute where the model or --encode auto can, else error]",
    ),
)
# Commands that learn from a table have these too.
encoding_options = _together(
    click.option(
        "--encode",
        type=click.Choice(["auto", "none"]),
        default="auto",
        show_default=True,
        help="Columns of text: a feature for each frequent category, or an error.",
    ),
    click.option("--text", metavar="A,B,...", multiple=True, help="Number columns to encode like text."),
    click.option(
        "--keep", metavar="A,B,...", multiple=True, help="Columns to keep although they look like ids."
    ),
)
splitting_options = _together(
    click.option("--test", type=FILE, help="File of held-out samples."),
    click.option("--split", metavar="COLUMN", help="Column that says train or test."),
    click.option(
        "--test-size", type=float, metavar="SHARE", help="Share of every class to hold out, as 0.3."
    ),
    click.option("--groups", metavar="COLUMN", help="Samples of one group stay on one side of a split."),
)
preparing_options = _together(
    click.option(
        "--select",
        type=click.Choice(["fixed", "cv"]),
        default="fixed",
        show_default=True,
        help="Fixed parameters and features, or chosen by cross-validation within the training samples.",
    ),
    click.option(
        "--scale",
        type=click.Choice(["none", "standard", "minmax", "unit"]),
        help="Features to mean 0 and deviation 1, to 0..1, or samples to norm 1.  "
        "[default: standard for tables, else none]",
    ),
    click.option(
        "--kernel",
        type=click.Choice(["none", "rbf", "poly", "cosine"]),
        help="Classify in the space of a kernel.  [default: rbf for tables, else none]",
    ),
    click.option("--sharpness", type=float, help="Of the kernel: larger is more local.  [default: 0.2]"),
    click.option("--embeddings", is_flag=True, help="Take the columns as they are, as embeddings want it."),
    click.option("--pca", type=int, metavar="D", help="Project onto D principal directions."),
    click.option("--weights", type=FILE, help="Weight file of the network."),
    click.option("--device", help="Where the network runs, such as cpu or cuda."),
    click.option("--image-shape", callback=_image_shape, metavar="HxW", help="Size of the pictures."),
)
n_jobs_option = click.option(
    "--n-jobs", type=int, help="Threads; -1 is all cores.  [default: as the libraries choose]"
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
