"""``residuum features``: from a folder of photographs to one file of features."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from residuum.errors import InterruptedRunError

if TYPE_CHECKING:
    from residuum.features import FolderReport
    from residuum.system.progress import Report

# The extractors are imported inside the command: `residuum --help` must not wait for them.

_SHOWN = 20


def _checked_name(context: click.Context, parameter: click.Parameter, value: str) -> str:
    from residuum.features import EXTRACTORS

    if value not in EXTRACTORS:
        raise click.BadParameter(f"{value!r} is not one of {', '.join(EXTRACTORS)}.", context, parameter)
    return value


@click.command(name="features")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--with",
    "extractor",
    metavar="NAME",
    default="bow_sift",
    show_default=True,
    callback=_checked_name,
    help="bow_sift, efficientnet_lite0, efficientnet_lite1, efficientnet_lite2, vgg16 or vgg19.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("features.npz"),
    show_default=True,
    help="File to write: X, y, paths, skipped, extractor.",
)
@click.option("--weights", type=click.Path(path_type=Path), help="Weight file of the network.")
@click.option("--fetch-weights", is_flag=True, help="Download the published weights of vgg16 or vgg19 first.")
@click.option("--device", help="Where the network runs, such as cpu or cuda.  [default: cpu]")
@click.option("--cache", type=click.Path(path_type=Path), help="Where features of single images are kept.")
@click.option(
    "--on-bad",
    type=click.Choice(["skip", "raise"]),
    default="skip",
    show_default=True,
    help="Files that cannot be used as images: name and skip them, or stop (exit code 3).",
)
@click.option("--jobs", type=click.IntRange(min=-1), default=-1, show_default=True, help="Threads; -1: all.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def features(
    folder: Path,
    extractor: str,
    out: Path,
    weights: Path | None,
    fetch_weights: bool,
    device: str | None,
    cache: Path | None,
    on_bad: str,
    jobs: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Turn every image below FOLDER, one sub-folder per class, into features.

    What is computed is kept: an interrupted run goes on where it stopped, and a second run computes nothing.
    """
    from residuum.cli.output import check_target
    from residuum.features import extract_folder
    from residuum.system.progress import progress_bars

    if jobs == 0:
        raise click.BadParameter("must be -1 or a positive number, got 0.", param_hint="--jobs")
    target = check_target(out)
    started = time.perf_counter()
    try:
        with progress_bars(shown=not quiet) as bars:
            model = _built(extractor, weights, fetch_weights, device, jobs, bars)
            report = extract_folder(
                folder,
                model,
                out=target,
                cache_dir=cache,
                on_bad=on_bad,
                n_jobs=jobs,
                progress=lambda done, total: bars(extractor, done, total),
            )
    except KeyboardInterrupt:
        raise InterruptedRunError(
            "The features computed so far are kept; the same command goes on from there."
        ) from None
    seconds = time.perf_counter() - started
    if as_json:
        click.echo(json.dumps(_summary(folder, extractor, out, report, seconds), indent=2))
        return
    for path, reason in report.skipped[:_SHOWN]:
        click.echo(f"skipped {path!a}: {reason}", err=True)
    if len(report.skipped) > _SHOWN:
        click.echo(f"skipped {len(report.skipped) - _SHOWN} more; all are listed in {out}.", err=True)
    click.echo(
        f"{out}: {report.n_images} images, {report.n_classes} classes, {report.n_features} features "
        f"({report.n_computed} computed, {report.n_images - report.n_computed} reused, "
        f"{len(report.skipped)} skipped, {seconds:.1f} s)"
    )


def _summary(folder: Path, extractor: str, out: Path, report: FolderReport, seconds: float) -> dict[str, Any]:
    return {
        "folder": str(folder),
        "extractor": extractor,
        "out": str(out),
        "images": report.n_images,
        "classes": report.n_classes,
        "features": report.n_features,
        "computed": report.n_computed,
        "reused": report.n_images - report.n_computed,
        "skipped": [{"path": path, "reason": reason} for path, reason in report.skipped],
        "seconds": round(seconds, 3),
    }


def _built(name: str, weights: Path | None, fetch: bool, device: str | None, jobs: int, bars: Report) -> Any:
    from residuum.features import EXTRACTORS, fetch_weights

    options: dict[str, Any] = {"n_jobs": jobs}
    if name == "bow_sift":
        for option, value in (("--weights", weights), ("--device", device), ("--fetch-weights", fetch)):
            if value:
                raise click.BadParameter("bow_sift has no network.", param_hint=option)
        return EXTRACTORS[name](**options)
    if fetch:
        options["weights"] = fetch_weights(name, progress=bars)
    if weights is not None:
        options["weights"] = weights
    return EXTRACTORS[name](device=device or "cpu", **options)
