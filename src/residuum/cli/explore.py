"""``residuum explore``: a page on this machine that shows why, live."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from residuum.cli.input_output import (
    read_queries,
    report_warnings,
    say_notes,
    with_model_features,
)
from residuum.cli.options import FILE, reading_options
from residuum.cli.training_data import prepared_samples, read_with_test
from residuum.errors import UsageError

if TYPE_CHECKING:
    from residuum.explorer.session import Exploration

TEST_SIZE = 0.3
# What 'residuum fit' would be asked for besides.
_USUAL = {
    "test_size": None, "seed": 0, "split": None, "groups": None, "encode": "auto", "text": (), "keep": (),
    "scale": None, "kernel": None, "sharpness": None, "embeddings": False, "pca": None, "weights": None,
    "device": None, "image_shape": None, "extractor": None,
}  # fmt: skip


@click.command()
@click.argument("source", metavar="[MODEL|DATA]", type=FILE, required=False)
@click.option("--test", type=FILE, help="File of samples to look at.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="0: any free one.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. One that other machines can reach shows the data to whoever has the token.",
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@reading_options
def explore(
    source: Path | None, test: Path | None, port: int, host: str, no_browser: bool, **options: Any
) -> None:
    """See in a browser how a query is coded, change the question, and watch the answer change.

    Without an argument: the bundled digits, with a canvas to draw on. A MODEL from 'residuum fit': its own
    training samples, each coded over the others, or those of --test. DATA as for 'residuum fit': the default
    classifier, and the samples of --test or 30 percent of every class to look at.

    The page runs on this machine alone and loads nothing from elsewhere. Nothing is written to disk.
    """
    from residuum.system.packages import starlette_and_uvicorn

    starlette_and_uvicorn()
    from residuum.explorer.app import PATHS, ExplorerService
    from residuum.server.running import Settings, serve

    with report_warnings():
        exploration = _opened(source, test, options)
    settings = Settings(host, port, 1, PATHS)

    def opened(url: str) -> None:
        address = f"{url}/?token={settings.token}"
        click.echo(f"Open {address}")
        click.echo("Ctrl-C ends it.", err=True)
        if not no_browser:
            import webbrowser

            webbrowser.open(address)

    serve(lambda worker: ExplorerService(exploration, worker), settings, opened=opened)


def _opened(source: Path | None, test: Path | None, options: dict[str, Any]) -> Exploration:
    from residuum.explorer.opening import explore_digits

    if source is None:
        if test is not None:
            raise UsageError("--test goes with a MODEL or DATA. The bundled digits bring their own.")
        return explore_digits()
    if _is_model(source):
        return _of_model(source, test, options)
    return _of_data(source, test, options)


def _is_model(source: Path) -> bool:
    """Whether a file is one of 'residuum fit', by its name or else by its content; .npz are archives too."""
    if source.suffix == ".residuum" or not source.is_file():
        return source.suffix == ".residuum" or (source / "model.json").is_file()  # refused: in shards
    return source.suffix.lower() not in (".npz", ".xlsx") and zipfile.is_zipfile(source)


def _of_model(source: Path, test: Path | None, options: dict[str, Any]) -> Exploration:
    from residuum.explorer.opening import explore_model
    from residuum.models.file import open_model

    if test is None:
        return explore_model(open_model(source), source.name)
    saved, queries = read_queries(source, [test], options)
    queries, _ = with_model_features(saved, queries)
    return explore_model(saved, source.name, queries)


def _of_data(source: Path, test: Path | None, options: dict[str, Any]) -> Exploration:
    from residuum.explorer.opening import THRESHOLD, explore_data, fewer_samples
    from residuum.models import Recipe, fit_recipe
    from residuum.models.preparing import chosen_features, features_note

    options |= {**_USUAL, "test": test}
    data = read_with_test(source, options)
    options["test_size"] = TEST_SIZE if data.split is None else None
    samples, before = prepared_samples(fewer_samples(data), options)
    say_notes(samples, before=data)
    features = chosen_features(samples, options, select="fixed")
    click.echo(f"{source}: {features_note(samples, features, options)}", err=True)
    train, test_part = samples.rows(samples.split == "train"), samples.rows(samples.split == "test")
    confidence = {"probability": True, "reject_threshold": THRESHOLD, "reject_by": "margin"}
    recipe = Recipe(features=features, confidence=confidence)
    fitted = fit_recipe(recipe, train.features, train.labels, image_shape=train.image_shape, before=before)
    return explore_data(train, test_part, fitted.estimator, str(fitted.features))
