"""What `numbers_in_text` writes between the marks of a page: a table, or a sentence, for each stored run.

A public function of a module has the name of its block, and reads the raw numbers of docs/data.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction

from stored_figures import (
    battery,
    descendants,
    embeddings,
    measurements,
    questions,
    results,
    scale,
    serve,
    speed,
)

RENDER: dict[str, Callable[[], str]] = {
    name: function
    for module in (
        *(battery, descendants, embeddings, measurements, questions),
        *(results, scale, serve, speed),
    )
    for name, function in vars(module).items()
    if isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
}
