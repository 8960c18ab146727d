"""People's own data for ``residuum compare``: features, trials, and how to name them again."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from residuum.cli import options as own
from residuum.cli import output
from residuum.errors import DataFormatError, UsageError

if TYPE_CHECKING:
    from residuum.experiments.comparison import Data, Split
    from residuum.inputs import OwnData

# Options that only make sense with DATA, and the values they have when they are not given.
_UNSET = {"encoding": "utf-8", "missing": "error", "drop": ()}


@dataclass(frozen=True)
class Plan:
    """Trials as the user asked for them; None where nothing was said, or where the data decide."""

    trials: int | None
    train_per_class: int | None
    seed: int

    def filled(self, trials: int, train_per_class: int) -> Plan:
        """With these numbers where nothing was said."""
        return replace(
            self,
            trials=trials if self.trials is None else self.trials,
            train_per_class=train_per_class if self.train_per_class is None else self.train_per_class,
        )


def refuse_without_data(options: dict[str, Any]) -> None:
    """Options of reading say nothing about the bundled digits."""
    given = [name for name, value in options.items() if value != _UNSET.get(name)]
    if given:
        name = {"extractor": "with"}.get(given[0], given[0]).replace("_", "-")
        raise UsageError(f"--{name} goes with DATA, a file or folder of your own.")


def own_samples(path: Path, plan: Plan, options: dict[str, Any]) -> tuple[Data, Plan]:
    """Samples of a file or folder with their trials, and the plan with what the data decided."""
    from residuum.experiments.comparison import Data
    from residuum.models.preparing import chosen_scale

    arguments = _arguments(path, options)
    test_size = options["test_size"]
    if plan.train_per_class is not None and test_size is not None:
        raise UsageError("--train-per-class and --test-size both say how to split: leave one out.")
    found = own.read_with_test(path, options)
    if found.labels is None:
        raise DataFormatError(f"{path} has no labels: there is nothing to compare.")
    with output.report_warnings():
        found = _featured(found, options)
    assert found.features is not None
    assert found.labels is not None
    trials, plan = _trials(found, plan, test_size)
    shape = found.image_shape
    data = Data(
        name=path.name,
        samples=found.features,
        labels=found.labels,
        image_shape=(shape[0], shape[1]) if shape is not None and len(shape) == 2 else None,
        trials=trials,
        scale=chosen_scale(found, options["scale"]),
        pca=options["pca"],
        groups=found.groups,
        arguments=arguments,
    )
    return data, plan


def _arguments(path: Path, options: dict[str, Any]) -> str:
    words = [shlex.quote(str(path))]
    for name, value in options.items():
        if value is None or value == _UNSET.get(name):
            continue
        option = "--" + {"extractor": "with"}.get(name, name).replace("_", "-")
        if isinstance(value, bool):
            words.append(option if value else option.replace("--", "--no-", 1))
            continue
        if name == "image_shape":
            value = "x".join(map(str, value))
        for item in value if isinstance(value, tuple) else (value,):
            words.append(f"{option} {shlex.quote(str(item))}")
    return " ".join(words)


def _featured(data: OwnData, options: dict[str, Any]) -> OwnData:
    """With numbers for images. Where no trial is fixed, a codebook is learned from all images, unlabelled."""
    from residuum.features.extraction import fit_extractor
    from residuum.inputs.image_features import with_features
    from residuum.models.preparing import as_pixels, built_extractor

    name = options["extractor"]
    if data.kind != "images":
        if name is not None:
            raise UsageError(f"--with {name} goes with a folder of images. Got {data.source}.")
        return data
    name = name or "bow_sift"
    if name == "pixels":
        return as_pixels(data, options["image_shape"])
    assert data.paths is not None
    extractor = built_extractor(name, options["weights"], options["device"])
    if data.split is not None:
        fit_extractor(
            extractor, [p for p, part in zip(data.paths, data.split, strict=True) if part == "train"]
        )
    with output.image_progress(name) as progress:
        found = with_features(data, extractor, progress=progress)
    output.say_notes(found, before=data)
    return found


def _trials(data: OwnData, plan: Plan, test_size: float | None) -> tuple[tuple[Split, ...] | None, Plan]:
    """The splits that the data or the options fix, or None for random ones by class."""
    from residuum.experiments.comparison import Split
    from residuum.inputs.splitting import train_test

    if data.split is not None:
        if plan.train_per_class is not None or (plan.trials or 1) > 1:
            raise UsageError(
                f"{data.source} brings its held-out samples, so there is one trial: leave --trials and "
                "--train-per-class out."
            )
        parts = Split(*train_test(data, test_size=test_size))
        if not len(parts.test):
            raise DataFormatError(f"{data.source}: the split leaves no test samples.")
        return (parts,), replace(plan, trials=1)
    if test_size is None and data.groups is not None:
        test_size = 0.3
        click.echo(
            f"{data.source}: 0.3 of the samples are held out, whole groups; --test-size says otherwise",
            err=True,
        )
    if test_size is not None:
        plan = plan.filled(5, 0)
        splits = [
            Split(*train_test(data, test_size=test_size, seed=_trial_seed(plan.seed, trial)))
            for trial in range(min(max(plan.trials or 1, 1), 1000))
        ]
        return tuple(splits), replace(plan, train_per_class=None)
    return None, _by_class(data, plan)


def _trial_seed(seed: int, trial: int) -> int:
    import numpy as np

    return int(np.random.SeedSequence([seed % 2**32, trial]).generate_state(1)[0])


def _by_class(data: OwnData, plan: Plan) -> Plan:
    """Half of the smallest class for training, at most 50, unless the user said a number."""
    import numpy as np

    classes, counts = np.unique(np.asarray(data.labels), return_counts=True)
    if len(classes) < 2:
        raise DataFormatError(f"All samples of {data.source} are of class {classes.tolist()[0]!r}.")
    smallest = int(counts.argmin())
    if counts[smallest] < 2:
        raise DataFormatError(
            f"{data.source}: class {classes.tolist()[smallest]!r} has 1 sample, so none can be held out. Add "
            "samples, drop the class, or hold samples out with --test, --split or --test-size."
        )
    half = min(50, int(counts[smallest]) // 2)
    if plan.train_per_class is None:
        click.echo(
            f"{data.source}: {half} training samples of each class; the smallest, "
            f"{classes.tolist()[smallest]!r}, has {counts[smallest]}. --train-per-class says otherwise",
            err=True,
        )
    return plan.filled(5, half)


def fingerprint(data: Data) -> str:
    """SHA-256 of samples, labels and trials: a run is continued on the same content only."""
    import numpy as np

    digest = hashlib.sha256(f"{data.samples.shape} {data.samples.dtype}".encode())
    for first in range(0, len(data.samples), 4096):
        digest.update(np.ascontiguousarray(data.samples[first : first + 4096]).tobytes())
    digest.update(repr(data.labels.tolist()).encode())
    if data.groups is not None:
        digest.update(repr(data.groups.tolist()).encode())
    for parts in data.trials or ():
        digest.update(parts.train.tobytes() + b"|" + parts.test.tobytes())
    return digest.hexdigest()
