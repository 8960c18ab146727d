"""``residuum fit``: from people's own data to a saved model."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from residuum import __version__
from residuum.cli import own_data as own
from residuum.errors import UsageError

if TYPE_CHECKING:
    from residuum.inputs import OwnData
    from residuum.models import Fitted, Recipe

METHODS = ("nsc", "src", "crc", "croc", "procrc", "nrc", "softnrc")
FEATURES = "pixels, bow_sift, efficientnet_lite0, efficientnet_lite1, efficientnet_lite2, vgg16 or vgg19"


@click.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "--method",
    type=click.Choice(METHODS, case_sensitive=False),
    default="softnrc",
    show_default=True,
    help="The classifier.",
)
@click.option(
    "--select",
    type=click.Choice(["fixed", "cv"]),
    default="fixed",
    show_default=True,
    help="Parameters as given, or chosen by cross-validation within the training samples.",
)
@click.option(
    "--set", "settings", metavar="NAME=VALUE", multiple=True, help="Parameter of the method; repeatable."
)
@click.option(
    "--scale",
    type=click.Choice(["none", "standard", "minmax", "unit"]),
    help="Features to mean 0 and deviation 1, to 0..1, or samples to norm 1.  "
    "[default: minmax for tables, else none]",
)
@click.option("--pca", type=int, metavar="D", help="Project onto D principal directions.")
@click.option("--with", "extractor", metavar="NAME", help=f"Features of images: {FEATURES}; or scattering.")
@click.option("--weights", type=click.Path(path_type=Path), help="Weight file of the network.")
@click.option("--device", help="Where the network runs, such as cpu or cuda.")
@click.option(
    "--image-shape", callback=own.image_shape, metavar="HxW", help="Size of the pictures in the rows."
)
@click.option("--probability", is_flag=True, help="Calibrate probabilities by cross-validation.")
@click.option("--reject-threshold", type=float, help="Answer 'none of these' below this confidence.")
@click.option(
    "--reject-by",
    type=click.Choice(["margin", "concentration"]),
    help="Confidence: margin of the residuals (default), or concentration of the code on one class.",
)
@own.splitting_options
@own.reading_options
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of --test-size.")
@click.option("--n-jobs", type=int, help="Threads; -1 is all cores.  [default: as the libraries choose]")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("model.residuum"),
    show_default=True,
    help="The model file to write.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def fit(data: Path, out: Path, n_jobs: int | None, as_json: bool, **options: Any) -> None:
    """Fit a classifier to DATA and save it, feature steps included, as one file.

    DATA is a table (.csv, .tsv, .parquet), arrays (.npz, .npy with --labels, .mat), or a folder of images
    with one sub-folder per class. With held-out samples (--test, --split, --test-size, or x_test in the
    file) their accuracy is printed; the model is fitted to the training samples alone.
    """
    from residuum.inputs.images import thumbnails
    from residuum.models.file import save_model
    from residuum.models.recipe import parse_settings
    from residuum.system.machine import limit_threads

    target = own.check_target(out, data, *(options[name] for name in ("test", "labels", "weights")))
    keywords = own.reading(options)
    settings = parse_settings(options["method"], options["select"], options["settings"])
    samples = own.read_with_test(data, options, keywords)
    with limit_threads(n_jobs), own.told_warnings() as missed:
        samples, before = _prepared(samples, options)
        recipe = _recipe(samples, options, settings)
        train, test = samples.rows(samples.split == "train"), samples.rows(samples.split == "test")
        fitted = _fitted(recipe, train, before)
        held_out = _held_out(fitted, test, len(before)) if len(test) else None
        about = _about(samples, train, recipe, fitted, options)
        pictures = thumbnails(train)
        save_model(fitted.estimator, target, about=about, images=pictures)
    _report(out, train, recipe, fitted, held_out, as_json)
    own.demand_convergence(missed)


def _prepared(data: OwnData, options: dict[str, Any]) -> tuple[OwnData, tuple[tuple[str, Any], ...]]:
    """The data with features and a split into train and test, and the step that made the features."""
    import numpy as np

    from residuum.inputs.images import extracted, fit_extractor, guess_image_shape
    from residuum.inputs.splitting import train_test
    from residuum.models.preparing import as_pixels, built_extractor
    from residuum.models.queries import EXTRACTOR

    name, shape = options["extractor"], options["image_shape"]
    if data.kind == "images":
        name = name or "bow_sift"
        if name == "pixels":
            found = as_pixels(data, shape)
            own.say_notes(replace(found, notes=found.notes[len(data.notes) :]))
            data = found
    train, test = train_test(data, test_size=options["test_size"], seed=options["seed"])
    marks = np.full(len(data), "train", dtype="<U5")
    marks[test] = "test"
    data = replace(data, split=marks)
    if data.features is not None:
        if name not in (None, "pixels", "scattering"):
            raise UsageError(f"--with {name} takes a folder of images. Got {data.source}.")
        return _shaped(data, shape or guess_image_shape(data)), ()
    assert data.paths is not None
    extractor = built_extractor(name, options["weights"], options["device"])
    if len(test):  # what is held out must not shape the features
        fit_extractor(extractor, [data.paths[i] for i in train])
    with own.image_progress(name) as progress:
        found = extracted(data, extractor, progress=progress)
    own.say_notes(replace(found, notes=found.notes[len(data.notes) :]))
    return found, ((EXTRACTOR, extractor),)


def _shaped(data: OwnData, shape: tuple[int, ...] | None) -> OwnData:
    assert data.features is not None
    if shape is None or data.image_shape is not None:
        return data
    if shape[0] * shape[1] != data.features.shape[1]:
        raise UsageError(
            f"--image-shape {shape[0]}x{shape[1]} is {shape[0] * shape[1]} pixels; {data.source} has "
            f"{data.features.shape[1]} features."
        )
    return replace(data, image_shape=shape)


def _recipe(data: OwnData, options: dict[str, Any], settings: dict[str, Any]) -> Recipe:
    from residuum.models import Recipe
    from residuum.models.preparing import chosen_scale

    confidence: dict[str, Any] = {}
    if options["probability"]:
        confidence["probability"] = True
    if options["reject_threshold"] is not None:
        confidence["reject_threshold"] = options["reject_threshold"]
        confidence["reject_by"] = options["reject_by"] or "margin"
    elif options["reject_by"]:
        raise UsageError("--reject-by says how to measure confidence and needs a --reject-threshold.")
    return Recipe(
        method=options["method"],
        select=options["select"],
        settings=settings,
        scattering=options["extractor"] == "scattering",
        scale=chosen_scale(data, options["scale"]),
        pca=options["pca"],
        confidence=confidence,
    )


def _fitted(recipe: Recipe, train: OwnData, before: tuple[tuple[str, Any], ...]) -> Fitted:
    from residuum.models import fit_recipe

    return fit_recipe(
        recipe,
        train.features,
        train.labels,
        groups=train.groups,
        image_shape=train.image_shape,
        before=before,
    )


def _held_out(fitted: Fitted, test: OwnData, n_before: int) -> dict[str, Any]:
    from residuum.models import answer, evaluate

    estimator = fitted.estimator[n_before:] if n_before else fitted.estimator
    found = evaluate(answer(estimator, test.features), test.labels)
    kept = ("samples", "accuracy", "probability", "rejection")
    return {name: found[name] for name in kept if name in found}


def _about(
    data: OwnData, train: OwnData, recipe: Recipe, fitted: Fitted, options: dict[str, Any]
) -> dict[str, Any]:
    """The notes in the model file, by which new data are read alike."""
    from residuum.system.json_text import plain

    name = options["extractor"] or ("bow_sift" if data.kind == "images" else None)
    assert train.features is not None
    raw = data.kind != "images" or name == "pixels"
    about: dict[str, Any] = {
        "input": {
            "kind": data.kind,
            "columns": None if data.columns is None else list(data.columns),
            "label": data.label,
            "n_features": int(train.features.shape[1]) if raw else None,
            "image_shape": None if data.image_shape is None else list(data.image_shape),
            "features": {"with": name, "scale": recipe.scale, "pca": recipe.pca},
        },
        "samples": train.names.tolist(),
        "method": recipe.method,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "residuum": __version__,
    }
    if fitted.selection:
        about["selection"] = plain(fitted.selection)
    return about


def _report(
    out: Path, train: OwnData, recipe: Recipe, fitted: Fitted, held_out: dict[str, Any] | None, as_json: bool
) -> None:
    import numpy as np

    steps = getattr(fitted.estimator, "steps", [("classify", fitted.estimator)])
    classifier = steps[-1][1]
    classes, counts = np.unique(np.asarray(train.labels), return_counts=True)
    summary = {
        "model": str(out),
        "method": type(classifier).__name__,
        "parameters": classifier.get_params(),
        "selection": fitted.selection or None,
        "steps": [type(step).__name__ for _, step in steps],
        "samples": len(train),
        "classes": classes.tolist(),
        "samples_per_class": counts.tolist(),
        "features": classifier.n_features_in_,
        "held_out": held_out,
    }
    if as_json:
        click.echo(own.as_json(summary))
        return
    least = f"{counts.min()} to {counts.max()}" if counts.min() < counts.max() else f"{counts.min()}"
    click.echo(
        f"{out}: {' -> '.join(summary['steps'])}, {len(train)} samples, {len(classes)} classes "
        f"({least} sample{'s' if counts.max() > 1 else ''} each), {classifier.n_features_in_} features"
    )
    if fitted.selection:
        chosen = ", ".join(
            f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}"
            for name, value in fitted.selection["parameters"].items()
        )
        click.echo(f"Chosen by cross-validation: {chosen} ({100 * fitted.selection['score']:.1f} %)")
    if held_out is None:
        click.echo("No held-out samples: --test-size 0.3 would tell how good the model is.", err=True)
    else:
        click.echo(f"Held out: {100 * held_out['accuracy']:.1f} % of {held_out['samples']} samples right")
