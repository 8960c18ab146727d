"""What the page shows, as plain data: explanations, what would happen without some samples, confusions."""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from residuum.dictionary import FloatArray
from residuum.errors import UsageError
from residuum.estimators.answers import Answers
from residuum.estimators.explanation import Explanation
from residuum.explain.compared import NOT_EXACT, compare_features
from residuum.explorer.coding import Coder
from residuum.explorer.pictures import InkFrame, drawn_parts
from residuum.explorer.queries import HeldOut, Query, back_through, through
from residuum.explorer.settings import Controls, Settings
from residuum.inputs import ExpectedColumns
from residuum.system.json_text import plain

SHOWN = 24  # training samples with their pictures
CLOSE = 0.1  # a close call: the runner-up's score is at most this share above the winner's
_KEPT = 4  # confusions


@dataclass(frozen=True)
class About:
    """What is explored.

    Attributes
    ----------
    title : str
        Such as the name of the file.
    kind : str
        "pixels", "image features", "embeddings" or "a table".
    columns : tuple of str or None
        Names of raw features.
    texts : tuple of int
        Which raw features are text.
    shape : tuple of int or None
        Of the pictures, where raw features are pixels.
    features : str
        What the features are, in words.
    notes : tuple of str
        What was guessed or left out.
    """

    title: str
    kind: str
    columns: tuple[str, ...] | None = None
    texts: tuple[int, ...] = ()
    shape: tuple[int, ...] | None = None
    features: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Takes:
    """What is known about the raw features that people may bring.

    Attributes
    ----------
    expected : ExpectedColumns or None
        How a row of a table is read; None for numbers in order.
    fills_gaps : bool
        Whether missing values are filled in.
    highest : float
        The value of a white pixel.
    extractor : transformer or None
        What makes the raw features of an image file.
    """

    expected: ExpectedColumns | None = None
    fills_gaps: bool = False
    highest: float = 255.0
    extractor: Any = None


class Exploration:
    """A dictionary, samples to look at, and every question that the page asks about them.

    Parameters
    ----------
    about : About
        What is explored.
    steps : list of transformers
        Before the classifier.
    coder : Coder
        Classifiers of any settings.
    controls : Controls
        Which settings are allowed.
    held_out : HeldOut
        Samples to look at.
    names : list of str
        ``names[i]`` is what a user calls training sample i.
    pictures : ndarray of uint8 or None
        ``pictures[i]`` is how training sample i looks.
    takes : Takes or None
        What people may bring.
    """

    def __init__(
        self,
        about: About,
        steps: list[Any],
        coder: Coder,
        controls: Controls,
        held_out: HeldOut,
        *,
        names: list[str],
        pictures: np.ndarray | None = None,
        takes: Takes | None = None,
    ) -> None:
        self.takes = takes or Takes()
        self.about, self.steps, self.coder, self.controls = about, steps, coder, controls
        self.held_out, self.names, self.pictures = held_out, names, pictures
        self.classes: list[Any] = coder.classes.tolist()
        self.frame = (
            InkFrame(pictures) if pictures is not None and InkFrame.suits(pictures, about.shape) else None
        )
        self.position = {sample: j for j, sample in enumerate(coder.dictionary.samples.tolist())}
        self.class_of = {label: k for k, label in enumerate(self.classes)}
        self._answers: OrderedDict[tuple[Any, ...], Answers] = OrderedDict()
        self._lock = threading.Lock()

    def summary(self) -> dict[str, Any]:
        """What the page needs once: classes, training samples, samples to look at, controls."""
        dictionary, held_out = self.coder.dictionary, self.held_out
        return plain(
            {
                "title": self.about.title,
                "kind": self.about.kind,
                "columns": self.about.columns,
                "n_inputs": self.n_inputs,
                "shape": self.about.shape,
                "features": self.about.features,
                "notes": self.about.notes,
                "classes": [str(label) for label in self.classes],
                "samples": dictionary.samples,
                "starts": dictionary.starts,
                "names": [self._called(sample) for sample in dictionary.samples.tolist()],
                "n_features": dictionary.n_features,
                "pictures": {
                    "train": self.pictures is not None,
                    "held_out": held_out.pictures is not None,
                    "sharp": self.pictures is not None and max(self.pictures.shape[1:3]) <= 48,
                },
                "brings": {
                    "drawing": self.frame is not None,
                    "picture": self.about.shape is not None or self.takes.extractor is not None,
                    "row": self.takes.extractor is None,
                },
                "held_out": {
                    "names": held_out.names,
                    "truth": held_out.truth,
                    "own": held_out.own_samples is not None,
                },
                "controls": self.controls.described(),
                "reject_by": self.coder.reject_by,
                "calibrated": self.coder.is_calibrated(self.controls.start),
                "close": CLOSE,
            }
        )

    @property
    def n_inputs(self) -> int:
        """Number of raw features."""
        first = self.steps[0] if self.steps else None
        return int(getattr(first, "n_features_in_", 0) or self.coder.dictionary.n_features)

    def _called(self, sample: int) -> str:
        return self.names[sample] if sample < len(self.names) else str(sample)

    # ------------------------------------------------------------------------------------------- queries

    def query(self, number: int) -> Query:
        """A held-out sample by its number."""
        held_out = self.held_out
        if not 0 <= number < len(held_out):
            raise UsageError(f"There are {len(held_out)} samples to look at, from 0 on. Got {number}.")
        own = None if held_out.own_samples is None else int(held_out.own_samples[number])
        query = Query(
            [],
            held_out.names[number],
            int(held_out.truth[number]),
            None if held_out.pictures is None else held_out.pictures[number],
            own,
            held_out.is_raw,
        )
        row = held_out.features[number : number + 1]
        if held_out.is_raw:
            return replace(query, inputs=through(self.steps, row))
        known = back_through(self.steps, np.asarray(row))
        missing = [np.empty((0, 0))] * (len(self.steps) + 1 - len(known))
        return replace(query, inputs=[*missing, *known])

    def brought(self, row: Any, name: str = "") -> Query:
        """A query from the raw features that somebody brings, (n_inputs,)."""
        row = np.asarray(row)[None]
        if row.shape[1] != self.n_inputs:
            raise UsageError(f"A query has {self.n_inputs} values here. Got {row.shape[1]}.")
        if row.dtype.kind == "f" and not np.isfinite(row).all() and self.about.kind != "a table":
            raise UsageError("All values of a query must be finite numbers.")
        return Query(through(self.steps, row), name)

    # -------------------------------------------------------------------------------------- explanations

    def explain(self, query: Query, settings: Settings, removed: Removed | None = None) -> dict[str, Any]:
        """Why a query is answered as it is, as JSON; classes are positions in ``classes``.

        Parameters
        ----------
        query : Query
            From `query` or `brought`.
        settings : Settings
            From ``controls.checked``.
        removed : Removed or None
            Training samples and classes to do without.
        """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            explanation = self.explanation(query, settings, removed)
        notes = [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
        return plain(self._described(query, settings, explanation, notes))

    def explanation(self, query: Query, settings: Settings, removed: Removed | None = None) -> Explanation:
        """The library's own explanation of a query."""
        removed = removed or Removed()
        own = () if query.own_sample is None else (query.own_sample,)
        samples = sorted({*removed.samples, *own} & set(self.position))
        sure, turn = self.coder.classifier(
            settings, samples=samples, labels=[self.classes[k] for k in removed.classes]
        )
        given = np.asarray(query.inputs[-1], dtype=np.float64)
        return sure.explain(turn(given))

    def _described(
        self, query: Query, settings: Settings, found: Explanation, notes: list[str]
    ) -> dict[str, Any]:
        dictionary, rank = self.coder.dictionary, {part.label: part for part in found.classes}
        code = np.zeros(dictionary.n_atoms)
        for atom in found.atoms:
            code[self.position[atom.sample]] = atom.coefficient
        verdict, runner_up = found.verdict, found.runner_up
        winner = self.class_of[found.label]
        second = None if runner_up is None else self.class_of[runner_up]
        nearest = [winner] if second is None else [winner, second]
        pictures = drawn_parts(query, self.steps, self._parts(code, nearest), self.about.shape, notes)
        comparison = None
        if self.about.shape is None and self.pictures is None:
            compared = [step for step in query.inputs if not step.size]
            comparison = compare_features(
                found, dictionary, self.steps, query.inputs, self.about.columns if not compared else None
            )
            notes += [] if comparison is None or comparison.exact else [NOT_EXACT]
        return {
            "winner": winner,
            "runner_up": second,
            "margin": found.margin,
            "rejected": verdict.rejected,
            "confidence": verdict.confidence,
            "reject_by": verdict.reject_by,
            "threshold": settings.threshold,
            "settings": asdict(settings),
            "calibrated": found.classes[0].probability is not None,
            "classes": [
                None
                if label not in rank
                else {
                    "residual": rank[label].residual,
                    "norm": rank[label].norm,
                    "share": rank[label].share,
                    "probability": rank[label].probability,
                }
                for label in self.classes
            ],
            "ranking": [self.class_of[part.label] for part in found.classes],
            "atoms": [
                {
                    "sample": atom.sample,
                    "class": self.class_of[atom.label],
                    "coefficient": atom.coefficient,
                    "share": atom.share,
                    "name": self._called(atom.sample),
                }
                for atom in found.atoms[:SHOWN]
            ],
            "atoms_used": found.atoms_used,
            "code": [float(f"{value:.6g}") for value in code.tolist()],
            "certificate": {
                "violation": found.violation,
                "gap": found.gap,
                "n_iter": found.n_iter,
                "converged": found.converged,
                "stopping": found.stopping,
            },
            "query": {"name": query.name, "truth": query.truth, "own": query.own_sample is not None},
            "pictures": None if pictures is None else dict(zip(_PICTURES, pictures, strict=False)),
            "comparison": None if comparison is None else _plain_labels(asdict(comparison), self.class_of),
            "notes": notes,
        }

    def _parts(self, code: FloatArray, classes: Sequence[int]) -> FloatArray:
        """``Xc`` and ``X_k c_k`` of some classes, in the features of the classifier."""
        dictionary = self.coder.dictionary
        blocks = dictionary.blocks
        everything = slice(0, dictionary.n_atoms)
        return np.stack(
            [code[some] @ dictionary.unit(some) for some in (everything, *(blocks[k] for k in classes))]
        )

    # --------------------------------------------------------------------------------------- confusions

    def confusion(self, settings: Settings) -> dict[str, Any]:
        """What every held-out sample is answered: class, runner-up, margin, close call, rejected or not.

        The page counts them, so that its filters need no further question. "None of these" is right for a
        sample whose class is not among the training samples, and wrong for every other.
        """
        answers = self._answered(settings)
        scores = np.sort(answers.residuals, axis=1)
        with np.errstate(invalid="ignore"):
            close = (
                scores[:, 1] - scores[:, 0] <= CLOSE * scores[:, 0]
                if scores.shape[1] > 1
                else scores[:, 0] < 0
            )
        rejected = answers.confidence < settings.threshold
        truth = self.held_out.truth
        right = np.where(rejected, truth < 0, answers.winners == truth)
        return plain(
            {
                "settings": asdict(settings),
                "truth": truth,
                "answered": answers.winners,
                "margin": answers.margins,
                "close": close,
                "rejected": rejected,
                "correct": int(np.count_nonzero(right)),
            }
        )

    def _answered(self, settings: Settings) -> Answers:
        with self._lock:
            if settings.key in self._answers:
                self._answers.move_to_end(settings.key)
                return self._answers[settings.key]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answers = self._answer_all(settings)
        with self._lock:
            self._answers[settings.key] = answers
            if len(self._answers) > _KEPT:
                self._answers.popitem(last=False)
        return answers

    def _answer_all(self, settings: Settings) -> Answers:
        held_out, own = self.held_out, self.held_out.own_samples
        if own is None:
            sure, turn = self.coder.classifier(settings)
            return sure.answer(turn(self._given(held_out.features)))
        residuals = np.full((len(held_out), len(self.classes)), np.inf)
        confidence, converged = np.zeros(len(held_out)), np.ones(len(held_out), dtype=bool)
        for i, sample in enumerate(own.tolist()):
            sure, turn = self.coder.classifier(settings, samples=[sample])
            found = sure.answer(turn(self._given(held_out.features[i : i + 1])))
            residuals[i, [self.class_of[label] for label in found.classes.tolist()]] = found.residuals[0]
            confidence[i], converged[i] = found.confidence[0], found.converged[0]
        return Answers(self.coder.classes, residuals, confidence, converged)

    def _given(self, rows: Any) -> FloatArray:
        """What the classifier is given for held-out samples."""
        given = through(self.steps, rows)[-1] if self.held_out.is_raw else rows
        return np.asarray(given, dtype=np.float64)


@dataclass(frozen=True)
class Removed:
    """Training samples, by number, and classes, by position, that a question does without."""

    samples: tuple[int, ...] = ()
    classes: tuple[int, ...] = ()

    @classmethod
    def checked(cls, asked: Any, exploration: Exploration) -> Removed:
        """What the page sends; numbers that name nothing are refused, and a class must be left."""
        asked = {} if asked is None else asked
        if not isinstance(asked, dict):
            raise UsageError("What is removed must be an object with samples and classes.")
        samples = _numbers(asked.get("samples"), "samples", set(exploration.position))
        classes = _numbers(asked.get("classes"), "classes", set(range(len(exploration.classes))))
        if len(classes) >= len(exploration.classes):
            raise UsageError("At least one class must be left.")
        return cls(samples, classes)


def _numbers(values: Any, name: str, known: set[int]) -> tuple[int, ...]:
    values = [] if values is None else values
    if not isinstance(values, list) or not all(type(value) is int and value in known for value in values):
        raise UsageError(f"The removed {name} must be a list of numbers that the dictionary has.")
    return tuple(sorted(set(values)))


_PICTURES = ("query", "reconstruction", "difference", "winner", "runner_up")


def _plain_labels(comparison: dict[str, Any], class_of: dict[Any, int]) -> dict[str, Any]:
    """The comparison with the position of the rival class in the place of its label."""
    rival = comparison["rival"]
    return {**comparison, "rival": None if rival is None else class_of[rival]}
