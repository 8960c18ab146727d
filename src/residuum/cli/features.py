"""``residuum features``: from a folder of photographs to one file of features."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import click

from residuum.cli.options import json_option, n_jobs_option
from residuum.errors import InterruptedRunError

# The extractors are imported inside the command: `residuum --help` must not wait for them.

_SHOWN = 20


@click.command(name="features")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--with",
    "extractor",
    type=click.Choice(
        ["bow_sift", "bow_sift_colour", "bow_sift_paper", "efficientnet_lite0", "vgg16", "vgg19"]
    ),
    default="bow_sift",
    show_default=True,
    help="What computes the features.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("features.npz"),
    show_default=True,
    help="File to write: X, y, paths, skipped, extractor.",
)
@click.option("--weights", type=click.Path(path_type=Path), help="Weight file of the network.")
@click.option("--device", help="Where the network runs, such as cpu or cuda.  [default: cpu]")
@click.option("--cache", type=click.Path(path_type=Path), help="Where features of single images are kept.")
@n_jobs_option
@json_option
def features(
    folder: Path,
    extractor: str,
    out: Path,
    weights: Path | None,
    device: str | None,
    cache: Path | None,
    n_jobs: int | None,
    as_json: bool,
) -> None:
    """Turn every image below FOLDER, one sub-folder per class, into features.

    Files that cannot be used as images are named and skipped. What is computed is kept: an interrupted run
    goes on where it stopped, and a second run computes nothing.
    """
    from residuum.cli.input_output import check_target
    from residuum.features import extract_folder
    from residuum.models.preparing import built_extractor
    from residuum.system.progress import tell_progress
    from residuum.system.threads import allowed_cores

    target, cores = check_target(out), allowed_cores(n_jobs)
    model = built_extractor(extractor, weights, device).set_params(n_jobs=cores)
    try:
        progress = partial(tell_progress, extractor)
        report = extract_folder(folder, model, out=target, cache_dir=cache, n_jobs=cores, progress=progress)
    except KeyboardInterrupt:
        raise InterruptedRunError(
            "The features computed so far are kept; the same command goes on from there."
        ) from None
    if as_json:
        click.echo(json.dumps({"folder": str(folder), "extractor": extractor, "out": str(out), **report}))
        return
    skipped = report["skipped"]
    for file in skipped[:_SHOWN]:
        click.echo(f"skipped {file['path']!a}: {file['reason']}", err=True)
    if len(skipped) > _SHOWN:
        click.echo(f"skipped {len(skipped) - _SHOWN} more; all are listed in {out}.", err=True)
    click.echo(
        f"{out}: {report['images']} images, {report['classes']} classes, {report['features']} features "
        f"({report['computed']} computed, {report['reused']} reused, {len(skipped)} skipped)"
    )
