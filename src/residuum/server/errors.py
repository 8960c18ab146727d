"""What is said to a client whose request cannot be answered: a status from 400 to 499 and one sentence."""

from __future__ import annotations

from residuum.errors import ResiduumError


class RequestError(ResiduumError):
    """A request that cannot be answered; `status` is one of 400 to 499, `retry` seconds to wait if any."""

    def __init__(self, status: int, sentence: str, *, retry: int | None = None) -> None:
        super().__init__(sentence)
        assert 400 <= status < 500
        self.status = status
        self.retry = retry


def too_busy(what: str) -> RequestError:
    """More is asked of this server at once than it takes."""
    return RequestError(429, f"The server is busy: {what}. Try again in a second.", retry=1)
