"""``residuum explain``: why a saved model gave one row its label."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from residuum.cli.input_output import (
    check_target,
    read_queries,
    report_warnings,
    require_convergence,
    write_output,
)
from residuum.cli.options import FILE, reading_options
from residuum.reports.table import print_table
from residuum.system.json_text import to_json


@click.command()
@click.argument("model", type=FILE)
@click.argument("data", type=FILE)
@click.option("--row", required=True, metavar="ROW", help="Name of the row or file, or its number from 0.")
@click.option("--html", "page", type=FILE, metavar="FILE", help="Write a page here.")
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
    features of a table that tell most, the margin to the runner-up and the certificate of the code: as
    tables, as JSON, or as one HTML page that needs no network.
    """
    if page is not None:
        target = check_target(page, model, data, options["labels"], option="--html")

    from residuum.explain.page import explanation_page
    from residuum.explain.rows import explain_row, find_row
    from residuum.explain.text import atom_table, class_table, feature_table

    with report_warnings():
        saved, queries, estimator = read_queries(model, data, options)
    index = find_row(queries, row)
    found = explain_row(saved, estimator, queries, index, max_atoms=atoms)
    name = str(queries.names[index])
    truth = None if queries.labels is None else queries.labels[index : index + 1].tolist()[0]
    title = f"Why row {name} of {data.name}" if queries.paths is None else f"Why {name}"
    told = () if truth is None else (f"According to {data.name}, the class is {truth}.",)
    if page is not None:
        write_output(target, explanation_page(found, title=title, notes=told), option="--html")
        click.echo(f"Wrote {page}", err=True)
    content = found.explanation.to_dict()
    if as_json:
        about = {"model": str(model), "data": str(data), "row": index, "name": name, "true_label": truth}
        compared = None if found.comparison is None else asdict(found.comparison)
        click.echo(to_json({**about, **content, "features": compared, "notes": found.notes}), nl=False)
    else:
        print_table(class_table(content, title, told), sys.stdout)
        print_table(atom_table(content, found.notes), sys.stdout)
        if found.comparison is not None:
            print_table(feature_table(found.comparison, content), sys.stdout)
    if not found.explanation.converged:
        require_convergence(["the code of this row missed the tolerance of its solver."])
