"""Wrongly classified photographs beside the training images that explained them.

For a row of Table 6: NRC with the parameters its cell chose codes the wrong test images again; the training
images with the largest shares ``c_j (x_j'Xc) / ||Xc||^2`` of the reconstruction are what it saw in them.
Pages hold small copies of the images of the data set: they stay in the run folder, for its owner to look at.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from residuum.estimators import METHODS
from residuum.estimators.explanation import Explanation
from residuum.experiments.runner import CELLS
from residuum.experiments.runner import read_cell
from residuum.features import read_image
from residuum.paper.data import ImageSamples
from residuum.paper.entries import Row
from residuum.paper.photo_trials import PhotoTrials
from residuum.paper.running import Plan, cell_name
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
    plan: Plan,
    row: Row,
    folder: Path,
    *,
    data_home: str | None = None,
    cache_dir: Path | None = None,
) -> list[Path]:
    """Write ``confusions-ROW.html`` and ``.md`` for trial 0 of a row; nothing where NRC has no cell.

    Parameters
    ----------
    plan : Plan
        Whose protocols, seed and queries; of its protocols the most honest one with a cell is used.
    row : Row
        A row of photographs.
    folder : Path
        Run folder.
    data_home, cache_dir : path or None
        Data sets, and where features are kept.
    """
    table = plan.table
    cell = protocol = None
    for protocol in (name for name in PREFERRED if name in plan.protocols):
        cell = read_cell(folder / CELLS / f"{cell_name(table.name, row.name, 0, protocol, 'NRC')}.json")
        if cell is not None:
            break
    if cell is None:
        return []
    trials = PhotoTrials(
        plan.rows,
        seed=plan.seed,
        queries=plan.queries,
        data_home=data_home,
        cache_dir=cache_dir,
    )
    samples = trials.samples(row)
    cases, pairs, n_wrong = _explained(trials, row, cell)
    title = f"{row.title}: what NRC took for something else"
    lead = (
        f"{n_wrong} of {len(cell['predictions'])} test images are classified wrongly by NRC (protocol "
        f"{protocol}, {_words(cell['parameters'])}). Examples, evenly spread over them, with the training "
        "images that have the largest shares of the code; the shares of all training images sum to 100 %."
    )
    paths = folder / f"confusions-{row.name}.html", folder / f"confusions-{row.name}.md"
    write_text(paths[0], confusions_page(title, lead, cases, pairs, samples))
    write_text(paths[1], _markdown(title, lead, cases, pairs, samples))
    return list(paths)


def _explained(
    trials: PhotoTrials, row: Row, cell: dict[str, Any]
) -> tuple[list[Confusion], list[tuple[tuple[int, int], int]], int]:
    """Examples, the most frequent (true, predicted) pairs, and the number of wrong answers."""
    data, parts = trials.features(row, 0), trials.split(row, 0)
    model = _model(cell["parameters"]).fit(data.train, data.train_labels)
    predictions = np.array(cell["predictions"])
    wrong = np.flatnonzero(predictions != data.test_labels)
    pairs = Counter(zip(data.test_labels[wrong].tolist(), predictions[wrong].tolist()))
    shown = wrong[np.linspace(0, len(wrong) - 1, min(EXAMPLES, len(wrong))).round().astype(np.int64)]
    cases = []
    for query in shown.tolist():
        told = model.explain(data.test[query])
        top = sorted(told.atoms, key=lambda atom: -atom.share)[:SHOWN_ATOMS]
        told = Explanation(**{**vars(told), "atoms": top})
        places = tuple(int(parts.train[atom.sample]) for atom in top)
        cases.append(Confusion(int(parts.test[query]), int(data.test_labels[query]), told, places))
    return cases, pairs.most_common(8), len(wrong)


def _model(parameters: dict[str, Any]) -> Any:
    values: dict[str, Any] = {name: np.inf if value == "inf" else value for name, value in parameters.items()}
    return METHODS[values.pop("estimator")](**values)


def _words(parameters: dict[str, Any]) -> str:
    if parameters["solver"] == "exact":
        return f"exact optimum, rule {parameters['rule']}"
    return f"T = {parameters['max_iter']}, rho = {parameters['rho']:.4g}, rule {parameters['rule']}"


def _name(samples: ImageSamples, label: int) -> str:
    numbered = samples.class_names[label].replace("_", " ")
    return re.sub(r"^\d+\.(?=\S)", "", numbered)  # CUB writes 001.Black_footed_Albatross


def _file(samples: ImageSamples, place: int) -> str:
    path = samples.paths[place]
    return f"{path.parent.name}/{path.name}"


def _residual_words(case: Confusion, samples: ImageSamples) -> str:
    told = case.explanation
    ranking = sorted(told.residuals, key=lambda label: told.residuals[label])
    rank = ranking.index(case.truth) + 1 if case.truth in ranking else None
    own = f"{told.residuals[case.truth]:.4f} (place {rank})" if rank else "none: it has no training image"
    return (
        f"Residual of {_name(samples, told.label)} {told.residuals[told.label]:.4f}, "
        f"of the true {_name(samples, case.truth)} {own}."
    )


def confusions_page(
    title: str, lead: str, cases: list[Confusion], pairs: list[Any], samples: ImageSamples
) -> str:
    """The page of the examples `cases` and of the `pairs` of classes that are confused most often."""
    return render(
        "confusions.html",
        title=title,
        lead=lead,
        pairs=[_pair_words(pair, count, samples) for pair, count in pairs],
        cases=[_shown_case(case, samples) for case in cases],
    )


def _shown_case(case: Confusion, samples: ImageSamples) -> dict[str, Any]:
    """What the page shows of one test image and of the training images that explain its label."""
    atoms = [
        {
            **_shown_image(samples, place),
            "share": percent(atom.share),
            "name": _name(samples, atom.label),
            "right": atom.label == case.truth,
        }
        for atom, place in zip(case.explanation.atoms, case.atoms, strict=True)
    ]
    return {
        **_shown_image(samples, case.image),
        "truth": _name(samples, case.truth),
        "given": _name(samples, case.explanation.label),
        "residuals": _residual_words(case, samples),
        "atoms": atoms,
    }


def _shown_image(samples: ImageSamples, place: int) -> dict[str, Any]:
    image = read_image(samples.paths[place], max_side=LARGEST_SIDE, min_side=1)
    return {"file": _file(samples, place), "image": image}


def _pair_words(pair: tuple[int, int], count: int, samples: ImageSamples) -> str:
    return f"{_name(samples, pair[0])} taken for {_name(samples, pair[1])}: {count}"


def _markdown(title: str, lead: str, cases: list[Confusion], pairs: list[Any], samples: ImageSamples) -> str:
    lines = [f"# {title}", "", lead, "", "Most frequent:", ""]
    lines += [f"- {_pair_words(pair, count, samples)}" for pair, count in pairs]
    for case in cases:
        given = _name(samples, case.explanation.label)
        lines += ["", f"**{_file(samples, case.image)}**, a {_name(samples, case.truth)}, taken for {given}."]
        lines += [_residual_words(case, samples), ""]
        lines += ["| share | training image | class |", "|---:|---|---|"]
        for atom, place in zip(case.explanation.atoms, case.atoms):
            name = _name(samples, atom.label)
            lines += [f"| {percent(atom.share)} % | {_file(samples, place)} | {name} |"]
    return "\n".join(lines) + "\n"
