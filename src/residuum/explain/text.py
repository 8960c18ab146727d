"""An explanation as tables for the terminal, made from what `Explanation.to_dict` returns."""

from __future__ import annotations

from typing import Any

from residuum.reports.numbers import four_digits
from residuum.reports.table import Table

CLASSES_SHOWN = 10


def class_table(content: dict[str, Any], title: str, notes: tuple[str, ...] = ()) -> Table:
    """The nearest classes with residual, norm and share of their part, and probability if there is one."""
    classes = content["classes"]
    columns = ("residual", "norm", "share", *(["probability"] if has_probabilities(content) else []))
    rows = tuple(
        (str(part["label"]), *(four_digits(part[name]) for name in columns))
        for part in classes[:CLASSES_SHOWN]
    )
    hidden = len(classes) - len(rows)
    more = [f"{hidden} more classes with larger residuals; --json lists all."] if hidden else []
    return Table(
        f"{title}: {content['answer']}",
        ("class", *columns),
        rows,
        best=frozenset({(0, 0), (0, 1)}),
        notes=(*more, _outcome(content), *notes),
    )


def atom_table(content: dict[str, Any], notes: tuple[str, ...] = ()) -> Table:
    """The training samples that carry the query."""
    atoms, certificate = content["atoms"], content["certificate"]
    named = has_names(content)
    rows = tuple(
        (
            str(atom["sample"]),
            *([atom["name"] or ""] if named else []),
            str(atom["label"]),
            four_digits(atom["coefficient"]),
            four_digits(atom["share"]),
        )
        for atom in atoms
    )
    code = (
        f"{content['method']}, {content['rule'].replace('_', ' ')} rule. Certificate of the code: violation "
        f"{four_digits(certificate['violation'])}, gap {four_digits(certificate['gap'])}, "
        f"{certificate['n_iter']} iterations, tolerance {'met' if certificate['converged'] else 'missed'}."
    )
    title = f"Training samples that carry it: {len(atoms)} of {content['atoms_used']} used"
    columns = ("sample", *(["name"] if named else []), "class", "coefficient", "share")
    return Table(title, columns, rows, notes=(code, *notes))


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
