"""Wrongly classified photographs beside the training images that explained them.

For a row of Table 6: NRC with the parameters its cell chose codes the wrong test images again; the training
images with the largest shares ``c_j (x_j'Xc) / ||Xc||^2`` of the reconstruction are what it saw in them.
Pages hold small copies of the images of the data set: they stay in the run folder, for its owner to look at.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from residuum.estimators import METHODS
from residuum.estimators.explanation import Explanation
from residuum.experiments.runner import CELLS, read_cell
from residuum.features import read_image
from residuum.paper.data import ImageSamples
from residuum.paper.entries import Row
from residuum.paper.photo_trials import PhotoTrials
from residuum.paper.running import Plan, cell_name, trials_of
from residuum.paper.trials import evenly_spread
from residuum.reports.confusion import score_words
from residuum.reports.numbers import percent
from residuum.reports.page import render
from residuum.reports.thumbnails import LARGEST_SIDE
from residuum.system.files import write_text

EXAMPLES = 12
SHOWN_ATOMS = 5
PREFERRED = ("best", "published", "authors")


@dataclass(frozen=True)
class Confusion:
    """One wrongly classified test image: its place in the data set, and why it got its label."""

    image: int
    truth: int
    explanation: Explanation
    atoms: tuple[int, ...]  # places of the explaining training images, in the order of explanation.atoms


def write_confusions(
    plan: Plan, row: Row, folder: Path, *, data_home: str | None = None, cache_dir: Path | None = None
) -> Path | None:
    """Write ``confusions-ROW.html`` for trial 0 of a row of photographs; nothing where NRC has no cell.

    Of the protocols of the plan, the most honest one with a cell is used.
    """
    paths = {
        protocol: folder / CELLS / f"{cell_name(plan.table.name, row.name, 0, protocol, 'NRC')}.json"
        for protocol in PREFERRED
        if protocol in plan.protocols
    }
    cells = {protocol: cell for protocol, path in paths.items() if (cell := read_cell(path)) is not None}
    if not cells:
        return None
    protocol, cell = next(iter(cells.items()))
    trials = trials_of(plan, data_home=data_home, cache_dir=cache_dir)
    cases, pairs = _explained(trials, row, cell)
    values = cell["parameters"]
    chosen = f"T = {values['max_iter']}, rho = {values['rho']:.4g}, rule {values['rule'].replace('_', ' ')}"
    if values["solver"] == "exact":
        chosen = f"exact optimum, rule {values['rule'].replace('_', ' ')}"
    lead = (
        f"{pairs.total()} of {len(cell['predictions'])} test images are classified wrongly by NRC (protocol "
        f"{protocol}, {chosen}). Examples, evenly spread over them, with the training images that have the "
        "largest shares of the code; the shares of all training images sum to 100 %."
    )
    title = f"{row.title}: what NRC took for something else"
    path = folder / f"confusions-{row.name}.html"
    write_text(path, confusions_page(title, lead, cases, pairs.most_common(8), trials.samples(row)))
    return path


def _explained(
    trials: PhotoTrials, row: Row, cell: dict[str, Any]
) -> tuple[list[Confusion], Counter[tuple[int, int]]]:
    """Examples, and how often which class was taken for which."""
    data, parts = trials.features(row, 0), trials.split(row, 0)
    values = {name: np.inf if value == "inf" else value for name, value in cell["parameters"].items()}
    del values["estimator"]
    model = METHODS["NRC"](**values).fit(data.train, data.train_labels)
    predictions = np.array(cell["predictions"])
    wrong = np.flatnonzero(predictions != data.test_labels)
    cases = []
    for query in evenly_spread(wrong, EXAMPLES).tolist():
        explanation = model.explain(data.test[query])
        top = sorted(explanation.atoms, key=lambda atom: -atom.share)[:SHOWN_ATOMS]
        places = tuple(int(parts.train[atom.sample]) for atom in top)
        truth = int(data.test_labels[query])
        cases.append(Confusion(int(parts.test[query]), truth, replace(explanation, atoms=top), places))
    return cases, Counter(zip(data.test_labels[wrong].tolist(), predictions[wrong].tolist()))


def confusions_page(
    title: str, lead: str, cases: list[Confusion], pairs: list[Any], samples: ImageSamples
) -> str:
    """The page of the examples `cases` and of the `pairs` of classes that are confused most often."""
    return render(
        "confusions.html",
        title=title,
        lead=lead,
        pairs=[f"{_name(samples, a)} taken for {_name(samples, b)}: {count}" for (a, b), count in pairs],
        cases=[_shown_case(case, samples) for case in cases],
    )


def _name(samples: ImageSamples, label: int) -> str:
    numbered = samples.class_names[label].replace("_", " ")
    return re.sub(r"^\d+\.(?=\S)", "", numbered)  # CUB writes 001.Black_footed_Albatross


def _shown_case(case: Confusion, samples: ImageSamples) -> dict[str, Any]:
    """What the page shows of one test image and of the training images that explain its label."""
    explanation = case.explanation
    truth, given = _name(samples, case.truth), _name(samples, explanation.label)
    scores, place = {given: explanation.residuals[explanation.label]}, None
    if case.truth in explanation.residuals:
        scores[truth] = explanation.residuals[case.truth]
        place = 1 + sum(value < scores[truth] for value in explanation.residuals.values())
    atoms = [
        {
            **_shown_image(samples, place),
            "share": percent(atom.share),
            "name": _name(samples, atom.label),
            "right": atom.label == case.truth,
        }
        for atom, place in zip(explanation.atoms, case.atoms, strict=True)
    ]
    image = _shown_image(samples, case.image)
    words = score_words(explanation.verdict.rule, scores, place)
    return {**image, "truth": truth, "given": given, "scores": words, "atoms": atoms}


def _shown_image(samples: ImageSamples, place: int) -> dict[str, Any]:
    path = samples.paths[place]
    image = read_image(path, max_side=LARGEST_SIDE, min_side=1)
    return {"file": f"{path.parent.name}/{path.name}", "image": image}
