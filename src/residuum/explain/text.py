"""An explanation as tables for the terminal, made from what `Explanation.to_dict` returns."""

from __future__ import annotations

from typing import Any

from residuum.reports.numbers import four_digits
from residuum.reports.table import Table

CLASSES_SHOWN = 10


def class_table(content: dict[str, Any], title: str, notes: tuple[str, ...] = ()) -> Table:
    """The nearest classes with residual, norm and share of their part, and probability if there is one."""
    columns = ["residual", "norm", "share", "probability"][: 4 if has_probabilities(content) else 3]
    shown, hidden = content["classes"][:CLASSES_SHOWN], len(content["classes"]) - CLASSES_SHOWN
    rows = tuple((str(part["label"]), *(four_digits(part[name]) for name in columns)) for part in shown)
    more = [f"{hidden} more classes with larger residuals; --json lists all."] if hidden > 0 else []
    best = frozenset({(0, 0), (0, 1)})
    title = f"{title}: {content['answer']}"
    return Table(title, ("class", *columns), rows, best, (*more, _outcome(content), *notes))


def atom_table(content: dict[str, Any], notes: tuple[str, ...] = ()) -> Table:
    """The training samples that carry the query."""
    atoms, certificate = content["atoms"], content["certificate"]
    columns = ["sample", *(["name"] if has_names(content) else []), "label", "coefficient", "share"]
    rows = tuple(
        tuple(str(atom[name]) if name == "label" else four_digits(atom[name]) for name in columns)
        for atom in atoms
    )
    code = (
        f"{content['method']}, {content['rule'].replace('_', ' ')} rule. Certificate of the code: violation "
        f"{four_digits(certificate['violation'])}, gap {four_digits(certificate['gap'])}; "
        f"{ending(certificate)}."
    )
    title = f"Training samples that carry it: {len(atoms)} of {content['atoms_used']} used"
    headings = tuple("class" if name == "label" else name for name in columns)
    return Table(title, headings, rows, notes=(code, *notes))


def ending(certificate: dict[str, Any]) -> str:
    """How the solver came to its end; only where there was a tolerance can it have been met."""
    count = certificate["n_iter"]
    if certificate["stopping"] == "direct":
        return "solved directly"
    if certificate["stopping"] == "steps":
        return f"{count} steps, as published" if count == 5 else f"{count} steps, as asked for"
    met = "met" if certificate["converged"] else "missed: these are the best numbers so far"
    return f"{count} iterations, tolerance {met}"


def has_probabilities(content: dict[str, Any]) -> bool:
    """Whether the classifier gave probabilities."""
    return content["classes"][0]["probability"] is not None


def has_names(content: dict[str, Any]) -> bool:
    """Whether the training samples have names other than their numbers."""
    return any(atom["name"] not in (None, str(atom["sample"])) for atom in content["atoms"])


def _outcome(content: dict[str, Any]) -> str:
    """The margin, and what became of it where the classifier rejects."""
    if content["runner_up"] is None:
        return f"{content['label']} is the only class."
    text = f"Margin to the runner-up {content['runner_up']}: {four_digits(content['margin'])}."
    rejection = content["reject"]
    if rejection["threshold"] is not None:
        verdict = "below, so rejected" if content["rejected"] else "not below, so accepted"
        text += (
            f" Confidence by {rejection['by']} {four_digits(content['confidence'])}, threshold "
            f"{four_digits(rejection['threshold'])}: {verdict}."
        )
    return text
