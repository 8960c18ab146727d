"""Classifiers that choose their own parameters: whole grids for the price of a few solves."""

from residuum.selection.estimators import CRCCV, CROCCV, NRCCV, NSCCV, SRCCV, ProCRCCV, SoftNRCCV

__all__ = ["CRCCV", "CROCCV", "NRCCV", "NSCCV", "SRCCV", "ProCRCCV", "SoftNRCCV"]
