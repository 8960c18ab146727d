"""Pages: one HTML file each that needs no network and runs no script, light or dark as the reader prefers.

The templates are in the folder ``templates``. Every text put into one is escaped; only figures, whose SVG
this package writes itself, come as `markupsafe.Markup`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from residuum.reports.numbers import four_digits
from residuum.reports.thumbnails import data_uri

TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, **values: Any) -> str:
    """The page that a file of TEMPLATES makes of these values of its variables; write it as UTF-8."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=_printable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"data_uri": data_uri, "four_digits": four_digits}
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False}
    return environment


def _printable(value: Any) -> Any:
    """Text that can be written as UTF-8 and shown: no lone surrogates, no control characters."""
    if hasattr(value, "__html__"):
        return value
    text = str(value).encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(
        c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text
    )
