"""``residuum fit``: from people's own data to a saved model."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from residuum import __version__
from residuum.cli.options import (
    image_shape,
    json_option,
    n_jobs_option,
    read_with_test,
    reading_options,
    splitting_options,
)
from residuum.cli.output import (
    check_target,
    image_progress,
    json_text,
    report_warnings,
    require_convergence,
    say_notes,
)
from residuum.errors import UsageError

if TYPE_CHECKING:
    from residuum.inputs import OwnData
    from residuum.models import Fitted, Recipe

FEATURES = "pixels, bow_sift, efficientnet_lite0, efficientnet_lite1, efficientnet_lite2, vgg16 or vgg19"


def _list_methods(context: click.Context, _option: click.Parameter, value: bool) -> None:
    if value:
        from residuum.models.recipe import METHODS

        click.echo("\n".join(METHODS))
        context.exit()


@click.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "--method",
    metavar="NAME",
    default="SoftNRC",
    show_default=True,
    help="The classifier, such as NRC or CRC, in any case; --list-methods names all.",
)
@click.option(
    "--list-methods",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_methods,
    help="Print the names for --method and exit.",
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
@click.option("--image-shape", callback=image_shape, metavar="HxW", help="Size of the pictures in the rows.")
@click.option("--probability", is_flag=True, help="Calibrate probabilities by cross-validation.")
@click.option("--reject-threshold", type=float, help="Answer 'none of these' below this confidence.")
@click.option(
    "--reject-by",
    type=click.Choice(["margin", "concentration"]),
    help="Confidence: margin of the residuals (default), or concentration of the code on one class.",
)
@splitting_options
@reading_options
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of --test-size.")
@n_jobs_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("model.residuum"),
    show_default=True,
    help="The model file to write.",
)
@json_option
def fit(data: Path, out: Path, n_jobs: int | None, as_json: bool, **options: Any) -> None:
    """Fit a classifier to DATA and save it, feature steps included, as one file.

    DATA is a table (.csv, .tsv, .parquet), arrays (.npz, .npy with --labels, .mat), or a folder of images
    with one sub-folder per class. With held-out samples (--test, --split, --test-size, or x_test in the
    file) their accuracy is printed; the model is fitted to the training samples alone.
    """
    from residuum.inputs.image_features import thumbnails
    from residuum.models import find_method, parse_settings
    from residuum.models.file import save_model
    from residuum.system.machine import limit_threads

    target = check_target(out, data, *(options[name] for name in ("test", "labels", "weights")))
    options["method"] = find_method(options["method"])
    settings = parse_settings(options["method"], options["select"], options["settings"])
    samples = read_with_test(data, options)
    with limit_threads(n_jobs), report_warnings() as unconverged:
        samples, before = _prepared(samples, options)
        recipe = _recipe(samples, options, settings)
        train, test = samples.rows(samples.split == "train"), samples.rows(samples.split == "test")
        fitted = _fitted(recipe, train, before)
        held_out = _held_out(fitted, test, len(before)) if len(test) else None
        about = _about(samples, train, recipe, fitted, options)
        save_model(fitted.estimator, target, about=about, images=thumbnails(train))
    _report(out, train, fitted, held_out, as_json)
    require_convergence(unconverged)


def _prepared(data: OwnData, options: dict[str, Any]) -> tuple[OwnData, tuple[tuple[str, Any], ...]]:
    """The data with features and a split into train and test, and the step that made the features."""
    import numpy as np

    from residuum.features.extraction import fit_extractor
    from residuum.inputs.image_features import guess_image_shape, with_features, with_pixels
    from residuum.inputs.splitting import train_test
    from residuum.models.preparing import built_extractor
    from residuum.models.queries import EXTRACTOR

    name, shape = options["extractor"], options["image_shape"]
    if data.kind == "images":
        name = name or "bow_sift"
        if name == "pixels":
            found = with_pixels(data, shape)
            say_notes(found, before=data)
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
    with image_progress(name) as progress:
        found = with_features(data, extractor, progress=progress)
    say_notes(found, before=data)
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

    return Recipe(
        method=options["method"],
        select=options["select"],
        settings=settings,
        scattering=options["extractor"] == "scattering",
        scale=chosen_scale(data, options["scale"]),
        pca=options["pca"],
        confidence=_confidence(options),
    )


def _confidence(options: dict[str, Any]) -> dict[str, Any]:
    """Parameters of a ConfidentClassifier, which calibrates unless it is told not to; empty for none."""
    threshold, by = options["reject_threshold"], options["reject_by"]
    if threshold is None and by:
        raise UsageError("--reject-by says how to measure confidence and needs a --reject-threshold.")
    if threshold is None:
        return {"probability": True} if options["probability"] else {}
    return {
        "probability": options["probability"],
        "reject_threshold": threshold,
        "reject_by": by or "margin",
    }


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
    out: Path, train: OwnData, fitted: Fitted, held_out: dict[str, Any] | None, as_json: bool
) -> None:
    import numpy as np

    classes, counts = np.unique(np.asarray(train.labels), return_counts=True)
    steps, n_features = fitted.step_names, fitted.classifier.n_features_in_
    if as_json:
        summary = {
            "model": str(out),
            "method": steps[-1],
            "parameters": fitted.parameters,
            "selection": fitted.selection or None,
            "steps": steps,
            "samples": len(train),
            "classes": classes.tolist(),
            "samples_per_class": counts.tolist(),
            "features": n_features,
            "held_out": held_out,
        }
        click.echo(json_text(summary))
        return
    least = f"{counts.min()} to {counts.max()}" if counts.min() < counts.max() else f"{counts.min()}"
    click.echo(
        f"{out}: {' -> '.join(steps)}, {len(train)} samples, {len(classes)} classes "
        f"({least} sample{'s' if counts.max() > 1 else ''} each), {n_features} features"
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
