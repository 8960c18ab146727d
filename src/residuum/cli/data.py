"""``residuum data``: what data sets there are, where they are, and how to get them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from residuum.system.json_text import to_json

# Data sets are imported inside the commands: `residuum --help` must not wait for them.

_home_option = click.option(
    "--data",
    "data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Data home. Default: $RESIDUUM_DATA, else the cache folder of the platform.",
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
_subset_option = click.option(
    "--subset", is_flag=True, help="Accept a part of a set of photographs, such as CUB's first classes."
)


def _checked_names(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Reject unknown names as wrong usage (exit code 2); none given means all."""
    from residuum.paper.data import DATASETS

    for name in (value,) if isinstance(value, str) else value or ():
        if name not in DATASETS:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(DATASETS)}.", context, parameter)
    return value


_names_argument = click.argument("names", metavar="[NAME]...", nargs=-1, callback=_checked_names)


@click.group(name="data")
def data() -> None:
    """Show, fetch, import and verify data sets. Nothing is downloaded unless you fetch it."""


@data.command("status")
@_names_argument
@_home_option
@_subset_option
@_json_option
def status_command(names: tuple[str, ...], data: Path | None, subset: bool, as_json: bool) -> None:
    """Say which data sets there are and where, and how to get a named one that is missing (exit code 3)."""
    from residuum.paper.data import DATASETS, data_home
    from residuum.paper.data.store import missing_text, status

    home = data_home(data)
    rows = [status(DATASETS[name], home, subset=subset) for name in names or DATASETS]
    if as_json:
        click.echo(to_json({"home": str(home), "datasets": rows}), nl=False)
    else:
        click.echo(f"data home: {home}")
        for row in rows:
            state = "present" if row["present"] else "missing"
            size = f"{row['bytes'] / 1e6:.1f} MB" if row["bytes"] else "-"
            click.echo(f"{row['name']:<16} {state:<8} {size:>10}  {row['title']}")
            click.echo(f"{'':<16} access: {row['access']}; licence: {row['licence']}")
            for path in row["paths"]:
                click.echo(f"{'':<16} {path}")
    missing = [missing_text(DATASETS[row["name"]], home) for row in rows if not row["present"]]
    if names and missing:
        click.echo("\n".join(missing), err=True)
        click.get_current_context().exit(3)


@data.command("fetch")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, callback=_checked_names)
@_home_option
@click.option("--mirror", help="Address of a folder with the files, tried first.")
@click.option("--force", is_flag=True, help="Download even if there is a copy.")
def fetch_command(names: tuple[str, ...], data: Path | None, mirror: str | None, force: bool) -> None:
    """Download data sets from their owners or mirrors, check them, and put them into the data home."""
    from residuum.paper.data import DATASETS, data_home
    from residuum.paper.data.intake import fetch

    if mirror is not None and not mirror.startswith(("http://", "https://")):
        raise click.BadParameter(
            f"must begin with http:// or https://, got {mirror!r}.", param_hint="--mirror"
        )
    home = data_home(data)
    for name in names:
        samples = fetch(DATASETS[name], home, mirror=mirror, force=force)
        click.echo(f"{name}: {len(samples.labels)} samples, {samples.n_classes} classes, {samples.source}")


@data.command("import")
@click.argument("name", metavar="NAME", callback=_checked_names)
@click.argument("path", type=click.Path(path_type=Path))
@_home_option
@click.option("--force", is_flag=True, help="Replace what is there under the same name.")
def import_command(name: str, path: Path, data: Path | None, force: bool) -> None:
    """Copy your own file or folder into the data home, after reading it in full."""
    from residuum.paper.data import DATASETS, data_home
    from residuum.paper.data.intake import import_copy

    home = data_home(data)
    samples = import_copy(DATASETS[name], path, home, force=force)
    click.echo(f"{name}: {len(samples.labels)} samples, {samples.n_classes} classes, in {home / name}")
    for note in samples.notes:
        click.echo(f"note: {note}", err=True)


@data.command("verify")
@_names_argument
@_home_option
@_subset_option
@_json_option
def verify_command(names: tuple[str, ...], data: Path | None, subset: bool, as_json: bool) -> None:
    """Check checksums and counts of the data sets that are there (exit code 3 if one is not right)."""
    from residuum.errors import DataError
    from residuum.paper.data import DATASETS, data_home
    from residuum.paper.data.store import status, verify

    home = data_home(data)
    chosen = names or [name for name in DATASETS if status(DATASETS[name], home, subset=subset)["present"]]
    reports: list[dict[str, Any]] = []
    for name in chosen:
        try:
            reports += verify(DATASETS[name], home, subset=subset)
        except DataError as error:
            reports.append({"name": name, "ok": False, "error": str(error)})
    if as_json:
        click.echo(to_json(reports), nl=False)
    else:
        for report in reports:
            result = (
                "ok, {samples} samples, {classes} classes, {source}" if report["ok"] else "FAILED: {error}"
            )
            click.echo(f"{report['name']}: {result.format(**report)}")
    if not all(report["ok"] for report in reports):
        click.get_current_context().exit(3)
