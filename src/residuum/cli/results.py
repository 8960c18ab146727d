"""``residuum results``: a page of results from run folders of ``residuum reproduce``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...")
@click.option("--out", metavar="FILE", help="Markdown page to write.  [default: standard output]")
def results(folders: tuple[str, ...], out: str | None) -> None:
    """Write a page of results from run folders of 'reproduce': all tables, all protocols, and what they say.

    Where two folders hold the same result, that of the folder named later is shown.
    """
    from residuum.paper.report import read_contents, results_page
    from residuum.system.files import write_text

    page = results_page(read_contents([Path(folder) for folder in folders]))
    if out is None:
        click.echo(page)
        return
    path = Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, page)
    click.echo(f"Wrote {path}", err=True)
