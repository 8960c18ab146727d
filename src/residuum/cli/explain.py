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
    with_model_features,
    write_output,
)
from residuum.cli.options import FILE, reading_options
from residuum.errors import UsageError
from residuum.reports.table import print_table
from residuum.system.json_text import to_json


@click.command()
@click.argument("model", type=FILE)
@click.argument("data", type=FILE, nargs=-1, required=True)
@click.option("--row", metavar="ROW", help="Name of the row or file, or its number from 0.")
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
    model: Path,
    data: tuple[Path, ...],
    row: str | None,
    page: Path | None,
    as_json: bool,
    atoms: int,
    **options: Any,
) -> None:
    """Say why MODEL gives one row of DATA, or one image, its label.

    DATA is as for 'residuum predict'. Where it is one image, --row can be left out.

    The class residuals, the training samples that carry the query with their coefficients and shares, the
    features of a table that tell most, the margin to the runner-up and the certificate of the code: as
    tables, as JSON, or as one HTML page that needs no network.
    """
    if page is not None:
        target = check_target(page, model, *data, options["labels"], option="--html")

    from residuum.explain.page import explanation_page
    from residuum.explain.rows import explain_row, find_row
    from residuum.explain.text import atom_table, class_table, feature_table
    from residuum.models.file import features_used

    with report_warnings():
        saved, queries = read_queries(model, data, options)
        if row is None and len(queries) > 1:
            raise UsageError(f"--row must say which of the {len(queries)} samples to explain, from 0.")
        index = 0 if row is None else find_row(queries, row)
        place = index
        if queries.paths is not None:  # features of the others are not needed
            queries, place = queries.rows([index]), 0
        queries, estimator = with_model_features(saved, queries)
    found = explain_row(saved, estimator, queries, place, max_atoms=atoms)
    name = str(queries.names[place])
    truth = None if queries.labels is None else queries.labels[place : place + 1].tolist()[0]
    title = f"Why row {name} of {data[0].name}" if queries.paths is None else f"Why {name}"
    used = features_used(saved.estimator, saved.about.get("input", {}))
    according = [] if truth is None else [f"According to {data[0].name}, the class is {truth}."]
    notes = (*according, f"Features: {' -> '.join(used)}.")
    if page is not None:
        write_output(target, explanation_page(found, title=title, notes=notes), option="--html")
        click.echo(f"Wrote {page}", err=True)
    content = found.explanation.to_dict()
    if as_json:
        about: dict[str, Any] = {"model": str(model), "data": queries.source, "features_used": used}
        about |= {"row": index, "name": name, "true_label": truth}
        compared = None if found.comparison is None else asdict(found.comparison)
        click.echo(to_json({**about, **content, "features": compared, "notes": found.notes}), nl=False)
    else:
        print_table(class_table(content, title, notes), sys.stdout)
        print_table(atom_table(content, found.notes), sys.stdout)
        if found.comparison is not None:
            print_table(feature_table(found.comparison, content), sys.stdout)
    if not found.explanation.converged:
        require_convergence(["the code of this row missed the tolerance of its solver."])
