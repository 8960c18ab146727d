"""What the controls of the page may ask for: a method, its rule, its parameters, and when not to answer."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from residuum.dictionary import Dictionary
from residuum.errors import UsageError
from residuum.estimators import METHODS
from residuum.estimators.weighted import WeightedClassifier
from residuum.rules import RULES

SLOW_L1 = 0.003  # a smaller one takes seconds with 3,000 atoms


@dataclass(frozen=True)
class Slider:
    """A parameter and its range.

    Attributes
    ----------
    name : str
        As the classifier calls it.
    low, high : float
        The range, ends included.
    logarithmic : bool
        Whether the slider moves in ratios.
    ends : tuple of float
        Values beyond the two ends that are allowed as well, such as 0 and inf.
    whole : bool
        Whether only whole numbers are allowed.
    """

    name: str
    low: float
    high: float
    logarithmic: bool = True
    ends: tuple[float, ...] = ()
    whole: bool = False

    def allows(self, value: Any) -> bool:
        """Whether the classifier may be given this value."""
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            return False
        inside = self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9)
        return (inside and (not self.whole or value == round(value))) or value in self.ends


@dataclass(frozen=True)
class Settings:
    """One state of the controls: the method with its parameters, and below which confidence it rejects."""

    method: str
    parameters: dict[str, Any] = field(default_factory=dict)
    threshold: float = 0.0

    @property
    def key(self) -> tuple[Any, ...]:
        """What decides the codes and the class scores."""
        return (self.method, *sorted(self.parameters.items()))


def sliders(method: str, dictionary: Dictionary) -> list[Slider]:
    """The sliders of a method: the ranges of its cross-validation, in proportion to the training samples.

    A method that is not named here has none.
    """
    size = float(dictionary.masses.sum())
    ridge = Slider("l2", 1e-6 * size / 700, 10 * size / 700)
    steps = Slider("max_iter", 1, 50, whole=True)
    ranges = {
        "NSC": [Slider("l2", 1e-6, 1e3)],
        "SRC": [Slider("l1", SLOW_L1, 1.0)],
        "CRC": [ridge],
        "CROC": [ridge, Slider("weight", 0.0, 1.0, logarithmic=False)],
        "ProCRC": [Slider("l2", max(1e-6, ridge.low), ridge.high), Slider("gamma", 1e-3, 10.0, ends=(0.0,))],
        "NRC": [Slider("rho", 0.01 * size / 1000, 100 * size / 1000), steps],
        "SoftNRC": [
            Slider("l2", 1e-4 * size / 1000, 1.0 * size / 1000),
            Slider("neg_weight", 1e-3, 1e3, ends=(0.0, math.inf)),
        ],
        "SimplexRC": [Slider("l2", 1e-3, 1.0, ends=(0.0,))],
        "CRNRC": [Slider("gamma", 1e-2, 100.0)],
    }
    return ranges.get(method, [])


def choices(method: str) -> dict[str, list[Any]]:
    """Parameters of a method with a few values, and these values."""
    found: dict[str, list[Any]] = {"rule": list(RULES)} if "rule" in METHODS[method]().get_params() else {}
    if method == "NRC":
        found["solver"] = ["admm", "exact"]
    if method == "SRC":
        found["positive"] = [False, True]
    return found


class Controls:
    """All that can be asked of one dictionary, and the settings to begin with."""

    def __init__(self, dictionary: Dictionary, start: Settings) -> None:
        weighted = dictionary.weights is not None
        self.methods = [
            name for name, kind in METHODS.items() if not weighted or issubclass(kind, WeightedClassifier)
        ]
        self.start = start
        self._sliders = {name: sliders(name, dictionary) for name in self.methods}
        self._usual = {name: self._defaults(name, dictionary) for name in self.methods}
        for position, slider in enumerate(self._sliders[start.method]):
            value = start.parameters[slider.name]
            if not slider.allows(value):  # the model was fitted with a value beyond
                wider = {"low": min(slider.low, value), "high": max(slider.high, value)}
                self._sliders[start.method][position] = Slider(**{**asdict(slider), **wider})

    def _defaults(self, method: str, dictionary: Dictionary) -> dict[str, Any]:
        if method == self.start.method:
            return dict(self.start.parameters)
        names = [*(slider.name for slider in self._sliders[method]), *choices(method)]
        usual = METHODS[method]().get_params()
        if usual.get("l2", 0.0) is None:
            usual["l2"] = 0.001 * float(dictionary.masses.sum()) / 700
        return {name: _within(usual[name], self._sliders[method], name) for name in names}

    def checked(self, asked: Any) -> Settings:
        """Settings from what the page sends; a name or value that is not allowed is refused."""
        asked = {} if asked is None else asked
        if not isinstance(asked, dict) or not isinstance(asked.get("parameters", {}), dict):
            raise UsageError("The settings must be an object with method, parameters and threshold.")
        method = asked.get("method", self.start.method)
        if method not in self.methods:
            raise UsageError(
                f"The method must be one of {', '.join(self.methods)}. Got {str(method)[:40]!r}."
            )
        parameters = dict(self._usual[method])
        for name, value in asked.get("parameters", {}).items():
            parameters[name] = self._value(method, name, value)
        threshold = asked.get("threshold", self.start.threshold)
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= 10:
            raise UsageError(f"The threshold must be a number from 0 to 10. Got {str(threshold)[:40]!r}.")
        return Settings(method, parameters, float(threshold))

    def _value(self, method: str, name: str, value: Any) -> Any:
        value = math.inf if value == "inf" else value
        slider = next((one for one in self._sliders[method] if one.name == name), None)
        if slider is not None and slider.allows(value):
            return round(value) if slider.whole else float(value)
        allowed = choices(method).get(name, [])
        if slider is None and any(type(value) is type(one) and value == one for one in allowed):
            return value
        if slider is None and not allowed:
            names = ", ".join(self._usual[method])
            raise UsageError(f"{method} has the parameters {names} here. Got {str(name)[:40]!r}.")
        said = (
            f"from {slider.low:g} to {slider.high:g}" if slider else f"one of {', '.join(map(str, allowed))}"
        )
        also = f" or {' or '.join(map(str, slider.ends))}" if slider and slider.ends else ""
        raise UsageError(f"{name} of {method} must be {said}{also}. Got {str(value)[:40]!r}.")

    def described(self) -> dict[str, Any]:
        """Methods, ranges and defaults for the page."""
        return {
            "methods": [
                {
                    "name": name,
                    "sliders": [asdict(slider) for slider in self._sliders[name]],
                    "choices": choices(name),
                    "usual": self._usual[name],
                }
                for name in self.methods
            ],
            "start": asdict(self.start),
        }


def settings_of(classifier: Any, threshold: float) -> Settings:
    """The settings by which a fitted classifier codes."""
    method = type(classifier).__name__
    names = [*(slider.name for slider in sliders(method, classifier.dictionary_)), *choices(method)]
    found = classifier.get_params()
    if "l2" in found and found["l2"] is None:
        found["l2"] = float(classifier.solver_.problem.l2)
    return Settings(method, {name: _plain(found[name]) for name in names}, threshold)


def _within(value: Any, ranges: list[Slider], name: str) -> Any:
    slider = next((one for one in ranges if one.name == name), None)
    if slider is None or slider.allows(value):
        return value
    return float(np.clip(value, slider.low, slider.high))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
