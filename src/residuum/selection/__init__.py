"""Classifiers that choose their own parameters: whole grids for the price of a few solves."""

from __future__ import annotations

from residuum.selection.base import GridSelector
from residuum.selection.descendants import CRNRCCV, SimplexRCCV
from residuum.selection.estimators import CRCCV, CROCCV, NRCCV, NSCCV, SRCCV, ProCRCCV, SoftNRCCV
from residuum.selection.pipeline import PipelineCV

__all__ = ["CRCCV", "CRNRCCV", "CROCCV", "NRCCV", "NSCCV", "SRCCV", "PipelineCV", "ProCRCCV", "SimplexRCCV"]
__all__ += ["SoftNRCCV", "search_of"]

_SEARCHES: dict[type, type[GridSelector]] = {
    search.classifier: search
    for search in (CRCCV, CROCCV, NRCCV, NSCCV, SRCCV, ProCRCCV, SoftNRCCV, SimplexRCCV, CRNRCCV)
}


def search_of(classifier: type) -> type[GridSelector] | None:
    """The estimator that chooses the parameters of a classifier by cross-validation, or None."""
    return _SEARCHES.get(classifier)
