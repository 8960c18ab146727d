"""Solvers whose engine prepares something for the dictionary, and carry it over when atoms join or leave."""

from __future__ import annotations

from typing import Any

from residuum.solvers._change import Change


class Preparing:
    """What such solvers share; each has a cached property `_prepared`, made from `_pending` if it is set."""

    _prepared: Any
    _pending: tuple[Any, Change] | None = None

    def prepare(self) -> None:
        """Make what depends on the dictionary alone, as a fit should."""
        self._ready()

    def _ready(self) -> Any:
        """What is prepared; asked for once in a solve, as two threads may prepare in two orders."""
        prepared = self._prepared
        self._pending = None
        return prepared

    def adopt(self, old: Any, change: Change) -> None:
        """Remember what the solver before a change of the dictionary had prepared, if it had.

        It is carried over when the first query comes, once for all the changes until then.
        """
        if "_prepared" in old.__dict__:
            self._pending = (old._prepared, change)
        elif old._pending is not None:
            self._pending = (old._pending[0], old._pending[1].then(change))
