"""How numbers are written in tables and on pages; a number that is missing or not known is an empty text."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and sample standard deviation; a single value has no deviation."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def one_decimal(value: float | None, deviation: float | None = None) -> str:
    """``97.4``, or ``97.4 ± 0.3`` with a deviation."""
    if value is None or math.isnan(value):
        return ""
    return f"{value:.1f}" + ("" if deviation is None else f" ± {deviation:.1f}")


def percent(share: float | None, deviation: float | None = None) -> str:
    """The same from fractions of one."""
    return one_decimal(*(None if value is None else 100 * value for value in (share, deviation)))


def signed(value: float) -> str:
    """``+0.3`` or, with a true minus sign, ``−0.3``."""
    return "" if math.isnan(value) else f"{value:+.1f}".replace("-", "−")


def significant(value: float) -> str:
    """Three significant digits without an exponent, for times."""
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3}f}"


def four_digits(value: Any) -> str:
    """Four significant digits; whole numbers and texts, such as the "inf" of JSON, as they are."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def scientific(value: float | None) -> str:
    """``4.3e-05``."""
    return "" if value is None else "0" if value == 0 else f"{value:.1e}"


def score_name(rule: str) -> str:
    """What the class scores of a rule are called."""
    names = {"reconstruction": "distance from the whole reconstruction", "croc": "score of CROC"}
    return names.get(rule, rule.replace("_", " "))
