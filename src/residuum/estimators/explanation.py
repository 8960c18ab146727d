"""Why a query got its label."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from residuum.estimators.answers import Answers, reject_label
from residuum.problem import CERTIFICATE_FIELDS, Solution, dense
from residuum.solvers import Solver
from residuum.system.json_text import plain

FORMAT = "residuum-explanation-1"
IN_SHORT = 5  # classes and training samples that a notebook shows


@dataclass(frozen=True)
class AtomShare:
    """One training sample's part in a code.

    ``coefficient`` is c_j, by which the unit-norm sample x_j enters ``Xc``. ``share`` is
    ``c_j (x_j'Xc) / ||Xc||^2``: the shares of all samples sum to 1. ``name`` is the file or row the sample
    came from, where that is known.
    """

    sample: int
    label: Any
    coefficient: float
    share: float
    name: str | None = None


@dataclass(frozen=True)
class ClassPart:
    """One class's part: its residual, the norm of ``X_k c_k`` and the sum of the shares of its atoms.

    The query has norm 1. ``probability`` is None unless the classifier is calibrated.
    """

    label: Any
    residual: float
    norm: float
    share: float
    probability: float | None = None


@dataclass(frozen=True)
class Verdict:
    """What the classifier makes of the residuals: how sure it is, and whether it answers.

    ``answer`` is what `predict` says: the winning class, or the label for "none of these".
    """

    method: str
    rule: str
    answer: Any
    confidence: float
    rejected: bool = False
    reject_by: str = "margin"
    reject_threshold: float | None = None


@dataclass(frozen=True, repr=False)
class Explanation:
    """The answer for one query, with what it rests on.

    In a notebook it shows itself as a small table; `plot` draws it.

    Attributes
    ----------
    label, runner_up
        The winning class and the next one (None with a single class).
    margin : float
        Residual of the runner-up minus residual of the winner.
    residuals : dict
        Label -> class residual by the classifier's rule.
    atoms : list of AtomShare
        Training samples with a non-zero coefficient, largest magnitude first.
    violation, gap, n_iter, converged
        The certificate of the code; without a tolerance there is none to miss, so `converged` is True.
    stopping : {"tolerance", "steps", "direct"}
        What ended the solver: its tolerance (or the most iterations allowed), the number of steps that was
        asked for, whatever the violation, or the one step of a closed form.
    classes : list of ClassPart
        Every class, smallest residual first.
    atoms_used : int
        Number of non-zero coefficients, of which `atoms` may list only the largest.
    verdict : Verdict
        Method, rule, confidence, and the answer with or without rejection.
    """

    label: Any
    runner_up: Any
    margin: float
    residuals: dict[Any, float]
    atoms: list[AtomShare]
    violation: float
    gap: float
    n_iter: int
    converged: bool
    stopping: str
    classes: list[ClassPart]
    atoms_used: int
    verdict: Verdict

    def __repr__(self) -> str:
        verdict = self.verdict
        rejected = f"answer={verdict.answer!r}, " if verdict.rejected else ""
        return (
            f"Explanation({rejected}label={self.label!r}, runner_up={self.runner_up!r}, "
            f"margin={self.margin:.4g}, method={verdict.method!r}, atoms_used={self.atoms_used}, "
            f"converged={self.converged})"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: a few lines of HTML in the colours of the notebook."""
        from residuum.reports.numbers import score_name
        from residuum.reports.page import render
        from residuum.reports.plots import COLOURS, OTHERS, RANKS

        content = self.to_dict()
        colours = [*COLOURS[:RANKS], *[OTHERS] * (len(self.classes) - RANKS)]
        finite = [part.residual for part in self.classes[:IN_SHORT] if math.isfinite(part.residual)]
        return render(
            "explanation_in_short.html",
            content=content,
            score=score_name(self.verdict.rule),
            shown=IN_SHORT,
            longest=max(finite, default=0.0) or 1.0,
            colours=dict(zip([part["label"] for part in content["classes"]], colours, strict=False)),
        )

    def plot(self, axes: Any = None, *, max_classes: int = 10, max_atoms: int = 10) -> Any:
        """Draw the residuals of the nearest classes beside the largest coefficients, with matplotlib.

        Parameters
        ----------
        axes : sequence of two matplotlib Axes, or None, default=None
            Where to draw; None makes a new figure.
        max_classes, max_atoms : int, default=10
            How many classes and training samples to show.

        Returns
        -------
        axes : the two Axes
        """
        from residuum.estimators.displays import draw_explanation

        return draw_explanation(self, axes, max_classes, max_atoms)

    def judged(self, answers: Answers, *, reject_by: str, reject_threshold: float | None) -> Explanation:
        """The same with the rejection and the probabilities of the single query behind `answers`."""
        rejected = answers.rejected is not None and bool(answers.rejected[0])
        verdict = replace(
            self.verdict,
            answer=reject_label(answers.classes) if rejected else self.label,
            confidence=float(answers.confidence[0]),
            rejected=rejected,
            reject_by=reject_by,
            reject_threshold=reject_threshold,
        )
        classes = self.classes
        if answers.probabilities is not None:
            known = dict(zip(answers.classes.tolist(), answers.probabilities[0].tolist(), strict=True))
            classes = [replace(part, probability=known[part.label]) for part in classes]
        return replace(self, classes=classes, verdict=verdict)

    def named(self, names: Sequence[str] | None) -> Explanation:
        """The same with the names of the training samples, given in their order; None changes nothing.

        Parameters
        ----------
        names : sequence of str or None
            ``names[i]`` is where training sample i came from.
        """
        if names is None:
            return self
        return replace(self, atoms=[replace(atom, name=str(names[atom.sample])) for atom in self.atoms])

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON: infinite numbers as the text "inf", unknown ones as null.

        Returns
        -------
        content : dict
            With ``answer, rejected, label, runner_up, margin, confidence, reject, method, rule, certificate,
            classes, atoms, atoms_used``.
        """
        verdict = self.verdict
        content = {
            "format": FORMAT,
            "method": verdict.method,
            "rule": verdict.rule,
            "answer": verdict.answer,
            "rejected": verdict.rejected,
            "label": self.label,
            "runner_up": self.runner_up,
            "margin": self.margin,
            "confidence": verdict.confidence,
            "reject": {"by": verdict.reject_by, "threshold": verdict.reject_threshold},
            "certificate": {name: getattr(self, name) for name in (*CERTIFICATE_FIELDS, "stopping")},
            "classes": [asdict(part) for part in self.classes],
            "atoms_used": self.atoms_used,
            "atoms": [asdict(atom) for atom in self.atoms],
        }
        return plain(content)


def stopping(solver: Any) -> str:
    """What ends a solver: "tolerance", "steps" or "direct", as `Explanation` has it."""
    if not hasattr(solver, "tol"):
        return "direct"
    return "steps" if solver.tol is None else "tolerance"


def explain_query(
    solver: Solver,
    solution: Solution,
    answers: Answers,
    *,
    method: str,
    rule: str,
    max_atoms: int | None,
) -> Explanation:
    """Explanation of the single query behind `solution` and `answers`."""
    dictionary = solver.dictionary
    scores = answers.residuals[0]
    code = dense(solution.codes)[0]  # (n_atoms,)
    whole = dictionary.combinations(code[None])[0]  # (n_features,)
    energy = float(whole @ whole)
    shares = code * dictionary.correlations(whole[None])[0] / (energy if energy > 0 else 1.0)
    coefficients = dictionary.coefficients(code)
    used = np.flatnonzero(code)
    ranking = np.argsort(scores, kind="stable")
    labels = answers.classes.tolist()
    return Explanation(
        label=labels[ranking[0]],
        runner_up=labels[ranking[1]] if len(labels) > 1 else None,
        margin=float(answers.margins[0]),
        residuals={label: float(score) for label, score in zip(labels, scores, strict=True)},
        atoms=[
            AtomShare(
                sample=int(dictionary.samples[j]),
                label=labels[dictionary.atom_class[j]],
                coefficient=float(coefficients[j]),
                share=float(shares[j]),
            )
            for j in used[np.argsort(-np.abs(coefficients[used]), kind="stable")][:max_atoms]
        ],
        **{name: getattr(solution, name)[0].item() for name in CERTIFICATE_FIELDS},
        stopping=stopping(solver),
        classes=[
            ClassPart(
                label=labels[k],
                residual=float(scores[k]),
                norm=float(np.linalg.norm(code[block] @ dictionary.atoms[block])),
                share=float(shares[block].sum()),
            )
            for k, block in ((k, dictionary.blocks[k]) for k in ranking)
        ],
        atoms_used=len(used),
        verdict=Verdict(method, rule, answer=labels[ranking[0]], confidence=float(answers.confidence[0])),
    )
