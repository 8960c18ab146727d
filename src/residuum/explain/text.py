"""An explanation as tables for the terminal, made from what `Explanation.to_dict` returns."""

from __future__ import annotations

from typing import Any

from residuum.explain.compared import Comparison
from residuum.reports.numbers import four_digits, score_name
from residuum.reports.table import Table

CLASSES_SHOWN = 10


def class_table(content: dict[str, Any], title: str, notes: tuple[str, ...] = ()) -> Table:
    """The nearest classes with residual, norm and share of their part, and probability if there is one."""
    columns = ["residual", "norm", "share", "probability"][: 4 if has_probabilities(content) else 3]
    shown, hidden = content["classes"][:CLASSES_SHOWN], len(content["classes"]) - CLASSES_SHOWN
    rows = tuple((str(part["label"]), *(four_digits(part[name]) for name in columns)) for part in shown)
    more = [f"{hidden} more classes, which fit less well; --json lists all."] if hidden > 0 else []
    best = frozenset({(0, 0), (0, 1)})
    title = f"{title}: {content['answer']}"
    headings = ("class", score_name(content["rule"]), *columns[1:])
    return Table(title, headings, rows, best, (*more, _outcome(content), *notes))


def atom_table(content: dict[str, Any], notes: tuple[str, ...] = ()) -> Table:
    """The training samples that carry the query."""
    atoms, certificate = content["atoms"], content["certificate"]
    columns = ["label", "coefficient", "share"]
    rows = tuple(
        (called(atom), str(atom["label"]), *(four_digits(atom[name]) for name in columns[1:]))
        for atom in atoms
    )
    code = (
        f"{content['method']}, {content['rule'].replace('_', ' ')} rule. Certificate of the code: violation "
        f"{four_digits(certificate['violation'])}, gap {four_digits(certificate['gap'])}; "
        f"{ending(certificate)}."
    )
    title = (
        f"Training samples that carry it: the largest {len(atoms)} of {content['atoms_used']} coefficients"
    )
    return Table(title, (sample_heading(content), "class", *columns[1:]), rows, notes=(code, *notes))


def feature_table(comparison: Comparison, content: dict[str, Any]) -> Table:
    """The most telling features: in the query, in the winning class and in its rival."""
    rival = [] if comparison.rival is None else [str(comparison.rival)]
    rows = tuple(
        (
            feature.name,
            four_digits(feature.query),
            *(
                four_digits(mean.value) if mean else ""
                for mean in (feature.winner, feature.rival)[: 1 + len(rival)]
            ),
            f"{feature.telling:+.2f}",
        )
        for feature in comparison.features
    )
    note = (
        "Classes: means of the training samples that carry the query. The last column says how much nearer "
        "the query is to the answer than to its rival, in standard deviations."
    )
    title = f"Features that tell most: {len(rows)} of {comparison.n_features}"
    return Table(title, ("feature", "query", str(content["label"]), *rival, "telling"), rows, notes=(note,))


def called(atom: dict[str, Any]) -> str:
    """What a training sample is called: its file or its row in the file, or else its number."""
    return str(atom["sample"]) if atom["name"] is None else str(atom["name"])


def sample_heading(content: dict[str, Any]) -> str:
    """What the names of the training samples are: rows of the file, counted from 0, or files."""
    names = [atom["name"] for atom in content["atoms"]]
    if None in names or not names:
        return "sample"
    return "row" if all(name.isdecimal() for name in names) else "name"


def ending(certificate: dict[str, Any]) -> str:
    """How the solver came to its end; only where there was a tolerance can it have been met."""
    count = certificate["n_iter"]
    if certificate["stopping"] == "direct":
        return "solved directly"
    if certificate["stopping"] == "steps":
        return f"{count} steps, as published" if count == 5 else f"{count} steps, as asked for"
    met = "met" if certificate["converged"] else "missed: these are the best numbers so far"
    return f"{count} iteration{'' if count == 1 else 's'}, tolerance {met}"


def has_probabilities(content: dict[str, Any]) -> bool:
    """Whether the classifier gave probabilities."""
    return content["classes"][0]["probability"] is not None


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
