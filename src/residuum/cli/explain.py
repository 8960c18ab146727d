"""``residuum explain``: why a saved model gave one row its label."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from residuum.cli.options import reading_arguments, reading_options
from residuum.cli.output import (
    check_target,
    image_progress,
    json_text,
    report_warnings,
    require_convergence,
    say_notes,
    write_output,
)


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--row", required=True, metavar="ROW", help="Name of the row or file, or its number from 0.")
@click.option("--html", "page", type=click.Path(path_type=Path), metavar="FILE", help="Write a page here.")
@click.option("--json", "as_json", is_flag=True, help="Print the explanation as JSON instead of tables.")
@click.option(
    "--atoms",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Training samples to list, largest coefficients first.",
)
@reading_options
def explain(
    model: Path, data: Path, row: str, page: Path | None, as_json: bool, atoms: int, **options: Any
) -> None:
    """Say why MODEL gives one row of DATA its label.

    The class residuals, the training samples that carry the query with their coefficients and shares, the
    margin to the runner-up and the certificate of the code: as tables, as JSON, or as one HTML page that
    needs no network.
    """
    target = None
    if page is not None:
        target = check_target(page, model, data, options["labels"], option="--html")

    from residuum.explain.rows import explain_row, find_row
    from residuum.models import open_queries
    from residuum.models.file import open_model

    reading = reading_arguments(options)
    saved = open_model(model)
    with report_warnings(), image_progress(data.name) as progress:
        queries, estimator = open_queries(saved, data, progress=progress, **reading)
    say_notes(queries)
    index = find_row(queries, row)
    found = explain_row(saved, estimator, queries, index, max_atoms=atoms)
    name = str(queries.names[index])
    truth = None if queries.labels is None else queries.labels[index : index + 1].tolist()[0]
    title = f"Why row {name} of {data.name}" if queries.paths is None else f"Why {name}"
    told = () if truth is None else (f"According to {data.name}, the class is {truth}.",)
    if target is not None:
        _write_page(target, found, title, (*told, *found.notes))
        click.echo(f"Wrote {page}", err=True)
    content = found.explanation.to_dict()
    if as_json:
        about = {"model": str(model), "data": str(data), "row": index, "name": name, "true_label": truth}
        click.echo(json_text({**about, **content, "notes": list(found.notes)}))
    else:
        _print_tables(content, title, told, found.notes)
    if not found.explanation.converged:
        require_convergence(["the code of this row missed the tolerance of its solver."])


def _print_tables(content: dict[str, Any], title: str, told: tuple[str, ...], notes: tuple[str, ...]) -> None:
    from residuum.explain.text import atom_table, class_table
    from residuum.reports.table import print_table

    for table in (class_table(content, title, told), atom_table(content, notes)):
        print_table(table, sys.stdout)


def _write_page(path: Path, found: Any, title: str, notes: tuple[str, ...]) -> None:
    from residuum.explain.page import explanation_page

    text = explanation_page(
        found.explanation,
        query_image=found.query_image,
        atom_images=found.atom_images,
        class_images=found.class_images,
        title=title,
        notes=notes,
    )
    write_output(path, text, option="--html")
