"""Options that several commands share, and what they make of the data they name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from residuum.cli.output import say_notes
from residuum.errors import UsageError
from residuum.system.progress import progress_bars

if TYPE_CHECKING:
    from residuum.inputs import OwnData
    from residuum.models.file import SavedModel

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


# Every command that reads a table has these; `_reading_arguments` takes their values out again.
reading_options = _together(
    click.option("--label", metavar="COLUMN", help="Label column by name or position (-1: the last)."),
    click.option("--drop", metavar="A,B,...", multiple=True, help="Columns to leave out."),
    click.option("--labels", type=FILE, help="File of labels for a .npy file."),
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
    click.option("--encoding", default="utf-8", show_default=True, help="Encoding of a text table."),
    click.option(
        "--missing",
        type=click.Choice(["error", "drop"]),
        default="error",
        show_default=True,
        help="A row that lacks a number: stop and name it, or leave it out.",
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
        help="Fixed parameters, or chosen by cross-validation within the training samples.",
    ),
    click.option(
        "--scale",
        type=click.Choice(["none", "standard", "minmax", "unit"]),
        help="Features to mean 0 and deviation 1, to 0..1, or samples to norm 1.  "
        "[default: minmax for tables, else none]",
    ),
    click.option("--pca", type=int, metavar="D", help="Project onto D principal directions."),
    click.option("--weights", type=FILE, help="Weight file of the network."),
    click.option("--device", help="Where the network runs, such as cpu or cuda."),
    click.option("--image-shape", callback=_image_shape, metavar="HxW", help="Size of the pictures."),
)
n_jobs_option = click.option(
    "--n-jobs", type=int, help="Threads; -1 is all cores.  [default: as the libraries choose]"
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")


def _reading_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options for reading out of `options` and return them as keyword arguments of `read_data`."""
    from residuum.inputs import TextFormat

    delimiter = DELIMITERS.get(options.pop("delimiter"))
    layout = {name: options.pop(name) for name in ("header", "decimal", "encoding", "missing")}
    drop = tuple(name.strip() for group in options.pop("drop") for name in group.split(",") if name.strip())
    return {
        "label": options.pop("label"),
        "drop": drop,
        "labels": options.pop("labels"),
        "text": TextFormat(delimiter=delimiter, **layout),
    }


def read_with_test(path: Path, options: dict[str, Any]) -> OwnData:
    """The samples at `path`, joined with those of --test as their held-out part; notes go to stderr.

    The options for reading and splitting, other than --test-size, are taken out of `options`.
    """
    from residuum.inputs import ExpectedColumns, read_data
    from residuum.inputs.splitting import join_train_and_test

    reading = _reading_arguments(options)
    test, split, group = options.pop("test"), options.pop("split"), options.pop("groups")
    data = read_data(path, split=split, group=group, **reading)
    say_notes(data)
    if test is None:
        return data
    if data.split is not None or options["test_size"] is not None:
        raise UsageError("--test brings the held-out samples: leave --split and --test-size out.")
    if data.features is None:
        raise UsageError(
            f"--test goes with tables and arrays. Put the images into {path}/train and {path}/test instead."
        )
    expected = ExpectedColumns(data.columns, data.features.shape[1], data.label)
    held_out = read_data(test, group=group, expected=expected, **reading)
    say_notes(held_out)
    return join_train_and_test(data, held_out)


def read_queries(
    model: Path, data: Path, options: dict[str, Any], *, split: str | None = None
) -> tuple[SavedModel, OwnData, Any]:
    """The model, the samples of `data`, and the estimator that takes their features; notes go to stderr."""
    from residuum.models import open_queries
    from residuum.models.file import open_model

    reading = _reading_arguments(options)
    saved = open_model(model)
    queries, estimator = open_queries(saved, data, split=split, **reading)
    say_notes(queries)
    return saved, queries, estimator


def features_of_images(data: OwnData, options: dict[str, Any]) -> tuple[OwnData, Any]:
    """A folder of images with features as --with says, and what extracted them (None for pixels).

    An extractor learns from the training images where some are held out, else from all of them.
    """
    from residuum.features.extraction import fit_extractor
    from residuum.inputs.image_features import with_features, with_pixels
    from residuum.models.preparing import built_extractor

    name, extractor = options["extractor"] or "bow_sift", None
    if name == "pixels":
        found = with_pixels(data, options["image_shape"])
    else:
        extractor = built_extractor(name, options["weights"], options["device"])
        if data.split is not None and (data.split == "test").any():
            fit_extractor(extractor, data.rows(data.split == "train").paths or ())
        with progress_bars() as report:
            found = with_features(data, extractor, progress=partial(report, name))
    say_notes(found, before=data)
    return found, extractor
