"""``residuum fit``: from people's own data to a saved model."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from residuum import __version__
from residuum.cli import options as shared
from residuum.cli.input_output import (
    check_target,
    report_warnings,
    require_convergence,
    say_notes,
)
from residuum.cli.options import FILE
from residuum.cli.training_data import prepared_samples, read_with_test
from residuum.errors import InterruptedRunError, UsageError
from residuum.system.json_text import plain, to_json
from residuum.system.progress import tell_progress

if TYPE_CHECKING:
    from residuum.inputs import OwnData
    from residuum.models import Fitted, Recipe
    from residuum.models.choosing import MethodChoice

FEATURES = "pixels, bow_sift, bow_sift_colour, bow_sift_paper, efficientnet_lite0, vgg16 or vgg19"


@click.command()
@click.argument("data", type=FILE)
@click.option(
    "--method",
    metavar="NAME",
    default="SoftNRC",
    show_default=True,
    help="The classifier, such as NRC or CRC, in any case; a wrong name lists them all, and auto chooses.",
)
@click.option(
    "--set", "settings", metavar="NAME=VALUE", multiple=True, help="Parameter of the method; repeatable."
)
@click.option("--with", "extractor", metavar="NAME", help=f"Features of images: {FEATURES}; or scattering.")
@shared.preparing_options
@click.option("--probability", is_flag=True, help="Calibrate probabilities by cross-validation.")
@click.option("--reject-threshold", type=float, help="Answer 'none of these' below this confidence.")
@click.option(
    "--reject-by",
    type=click.Choice(["margin", "concentration"]),
    help="Confidence: margin of the residuals (default), or concentration of the code on one class.",
)
@shared.splitting_options
@shared.reading_options
@shared.encoding_options
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of --test-size.")
@shared.n_jobs_option
@click.option(
    "--out", type=FILE, default="model.residuum", show_default=True, help="The model file to write."
)
@shared.json_option
def fit(data: Path, out: Path, n_jobs: int | None, as_json: bool, **options: Any) -> None:
    """Fit a classifier to DATA and save it, feature steps included, as one file.

    DATA is a table (.csv, .tsv, .xlsx, .parquet), arrays (.npz, .npy with --labels, .mat), or a folder of
    images with one sub-folder per class. With held-out samples (--test, --split, --test-size, or x_test in
    the file) their accuracy is printed; the model is fitted to the training samples alone, and saved before.

    A folder from 'residuum shard' makes a model over these shards: then --out names a folder, and
    only --method and --set apply.
    """
    if (data / "manifest.json").is_file():
        _fit_shards(data, out, options)
        return
    import numpy as np

    from residuum.inputs.image_features import thumbnails
    from residuum.models import Recipe, fit_recipe
    from residuum.models.choosing import choose_method
    from residuum.models.file import encoder_of, features_used
    from residuum.models.preparing import chosen_features, encoding_notes, features_note
    from residuum.models.saving import save_model
    from residuum.system.threads import limit_threads

    target = check_target(out, data, *(options[name] for name in ("test", "labels", "weights")))
    automatic = _check_options(options)
    with limit_threads(n_jobs), report_warnings() as unconverged:
        samples, before = prepared_samples(read_with_test(data, options), options)
        recipe = Recipe(
            scattering=options["extractor"] == "scattering",
            features=chosen_features(samples, options, select=options["select"]),
            **{name: options[name] for name in ("method", "select", "confidence")},
            settings=dict(options["settings"]),
        )
        click.echo(f"{data}: {features_note(samples, recipe.features, options)}", err=True)
        train, test = samples.rows(samples.split == "train"), samples.rows(samples.split == "test")
        known: dict[str, Any] = {"groups": train.groups, "image_shape": train.image_shape}
        choice = None
        if automatic:
            on_step = partial(tell_progress, "methods")
            choice = choose_method(recipe, train.features, train.labels, **known, on_step=on_step)
            recipe = replace(recipe, method=choice.ranking[0])
        pictures, width = thumbnails(train), np.asarray(train.features).shape[1]
        features, train = [train.features], replace(train, features=None)
        del samples
        # The samples are given away here, so that they can be freed early.
        fitted = fit_recipe(recipe, features.pop(), train.labels, **known, before=before)
        about = _about(train, width, recipe, fitted, choice, options)
        save_model(fitted.estimator, target, about=about, images=pictures)
        if encoder := encoder_of(fitted.estimator):
            notes = encoding_notes(encoder, train.called or [str(j) for j in range(encoder.n_features_in_)])
            say_notes(train.noted(*notes), before=train)
        held_out = _held_out(fitted, test, len(before), out) if len(test) else None
    used = features_used(fitted.estimator, about["input"])
    _report(out, train, fitted, choice, held_out, used, as_json)
    require_convergence(unconverged)


def _fit_shards(data: Path, out: Path, options: dict[str, Any]) -> None:
    """A model over shards, as a folder that refers to them."""
    from residuum.models import find_method, parse_settings
    from residuum.models.recipe import maker_of
    from residuum.scale import Sharded

    context = click.get_current_context()
    given = [name for name in options if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if extra := sorted(set(given) - {"method", "settings"}):
        raise UsageError(
            f"{data} is a dictionary in shards, for which --{extra[0].replace('_', '-')} is not there."
        )
    if out.is_file():
        raise UsageError(f"--out must name the folder of a model over shards. Got the file {out}.")
    name = find_method(options["method"])
    estimator = maker_of(name, "fixed")(**parse_settings(name, "fixed", options["settings"]))
    model = Sharded(estimator).fit(data)
    model.save_model(out)
    shards = model.shards_
    counts = f"{shards.sizes.sum()} atoms in {len(shards.shards)} shards, {len(shards.classes)} classes"
    click.echo(f"{out}: {name}, {counts}, {shards.n_features} features")


def _check_options(options: dict[str, Any]) -> bool:
    """Refuse what can be refused before a file is read; names and settings give way to what they mean.

    True if the method is to be chosen.
    """
    from residuum.inputs.splitting import check_holding_out
    from residuum.models import find_method, parse_settings
    from residuum.models.choosing import AUTO
    from residuum.models.preparing import check_feature_options

    automatic = options["method"].lower() == AUTO
    if automatic and options["settings"]:
        raise UsageError("--set names parameters of one method: leave it out, or name the method.")
    if not automatic:
        options["method"] = find_method(options["method"])
        options["settings"] = parse_settings(options["method"], options["select"], options["settings"])
    options["confidence"] = _confidence(options)
    check_holding_out(options["test_size"], options["seed"])
    check_feature_options(options)
    return automatic


def _confidence(options: dict[str, Any]) -> dict[str, Any]:
    """Parameters of a ConfidentClassifier, which calibrates unless it is told not to; empty for none."""
    threshold, by, probability = (options[n] for n in ("reject_threshold", "reject_by", "probability"))
    if threshold is not None:
        return {"probability": probability, "reject_threshold": threshold, "reject_by": by or "margin"}
    if by:
        raise UsageError("--reject-by says how to measure confidence and needs a --reject-threshold.")
    return {"probability": True} if probability else {}


def _held_out(fitted: Fitted, test: OwnData, n_before: int, out: Path) -> dict[str, Any]:
    from residuum.models import answer, evaluate

    estimator = fitted.estimator[n_before:] if n_before else fitted.estimator
    try:
        found = evaluate(answer(estimator, test.features), test.labels)
    except KeyboardInterrupt:
        raise InterruptedRunError(
            f"The model is saved as {out}; only its figures on the held-out samples are missing."
        ) from None
    kept = ("samples", "accuracy", "probability", "rejection")
    return {name: found[name] for name in kept if name in found}


def _about(
    train: OwnData,
    width: int,
    recipe: Recipe,
    fitted: Fitted,
    choice: MethodChoice | None,
    options: dict[str, Any],
) -> dict[str, Any]:
    """The notes in the model file, by which new data are read alike; `width` is the number of columns."""
    extractor = options["extractor"]
    raw = train.kind != "images" or extractor == "pixels"
    about = {
        "input": {
            "kind": train.kind,
            "columns": train.columns,
            "label": train.label,
            "n_features": width if raw else None,
            "without": options["without"],
            "image_shape": train.image_shape,
            "features": {"with": extractor, **asdict(fitted.features)},
        },
        "samples": train.names,
        "method": recipe.method,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "residuum": __version__,
        **({"selection": fitted.selection} if fitted.selection else {}),
        **({"choice": choice.to_dict()} if choice else {}),
    }
    return plain(about)


def _report(
    out: Path,
    train: OwnData,
    fitted: Fitted,
    choice: MethodChoice | None,
    held_out: dict[str, Any] | None,
    used: list[str],
    as_json: bool,
) -> None:
    import numpy as np

    classes, counts = np.unique(np.asarray(train.labels), return_counts=True)
    steps, n_features = fitted.step_names, fitted.classifier.n_features_in_
    if as_json:
        summary = {
            "model": str(out),
            "method": steps[-1],
            "choice": choice.to_dict() if choice else None,
            "parameters": fitted.parameters,
            "selection": fitted.selection or None,
            "steps": steps,
            "samples": len(train),
            "classes": classes,
            "samples_per_class": counts,
            "features": n_features,
            "features_used": used,
            "prepared": asdict(fitted.features),
            "held_out": held_out,
        }
        click.echo(to_json(summary), nl=False)
        return
    sizes = " to ".join(str(count) for count in sorted({counts.min(), counts.max()}))
    click.echo(
        f"{out}: {' -> '.join(steps)}, {len(train)} samples, {len(classes)} classes "
        f"({sizes} sample{'s' if counts.max() > 1 else ''} each), {n_features} features"
    )
    click.echo(f"Features: {' -> '.join(used)}")
    if choice:
        click.echo(str(choice))
    if fitted.selection:
        chosen = ", ".join(
            f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}"
            for name, value in fitted.selection["parameters"].items()
        )
        said = f"{chosen}; {fitted.selection['features']} ({100 * fitted.selection['score']:.1f} %)"
        click.echo(f"Chosen by cross-validation: {said}")
    if held_out is None:
        click.echo("No held-out samples: --test-size 0.3 would tell how good the model is.", err=True)
    else:
        click.echo(f"Held out: {100 * held_out['accuracy']:.1f} % of {held_out['samples']} samples right")
