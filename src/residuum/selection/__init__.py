"""Classifiers that choose their own parameters: whole grids for the price of a few solves."""

from typing import Any

from residuum.selection.estimators import CRCCV, CROCCV, NRCCV, NSCCV, SRCCV, ProCRCCV, SoftNRCCV

__all__ = ["CRCCV", "CROCCV", "NRCCV", "NSCCV", "SRCCV", "ProCRCCV", "SoftNRCCV", "search_of"]

_SEARCHES: dict[type, Any] = {
    search._estimator_class: search for search in (CRCCV, CROCCV, NRCCV, NSCCV, SRCCV, ProCRCCV, SoftNRCCV)
}


def search_of(classifier: type) -> Any:
    """The estimator that chooses the parameters of this class of classifiers, or None."""
    return _SEARCHES.get(classifier)
