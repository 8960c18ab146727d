"""``residuum shard``: samples of any number as a dictionary in shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from residuum.cli.input_output import reading_arguments, report_warnings
from residuum.cli.options import FILE, reading_options


@click.command()
@click.argument("data", type=FILE)
@reading_options
@click.option("--out", type=FILE, required=True, help="Folder to write.")
@click.option(
    "--part-size", metavar="SIZE", default="16MB", show_default=True, help="Of the atoms of one shard."
)
def shard(data: Path, out: Path, part_size: str, **options: Any) -> None:
    """Write the samples of DATA as unit float32 rows sorted by class, in shards, with their checksums.

    DATA is a table or an array as 'residuum fit' takes it, or a folder of .npy, .parquet or .csv parts, or a
    zarr array. It is read once and may be larger than the memory. 'residuum fit' makes a model of the shards.
    """
    from residuum.scale import shard as write_shards
    from residuum.scale.runner import as_bytes

    labels = options["labels"]
    reading = {name: value for name, value in reading_arguments(options).items() if value is not None}
    reading.pop("labels", None)
    with report_warnings():
        shards = write_shards(data, labels, out, part_bytes=as_bytes(part_size), reading=reading)
    duplicates = sum(part.n_duplicates for part in shards.shards)
    click.echo(
        f"{out}: {shards.sizes.sum()} atoms of {len(shards.classes)} classes in {len(shards.shards)} shards, "
        f"{shards.n_features} features, {duplicates} duplicates"
    )
