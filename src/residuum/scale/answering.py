"""Many queries: a source of any size answered part by part, each part written whole or not at all.

The folder of answers holds one file for each part and ``run.json``, which says of what they are the answers.
A run that was interrupted goes on where it stopped: parts that are there are not answered again.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from residuum.errors import DataError, UsageError
from residuum.estimators.answers import Answers, records, score_heading, steps_and_classifier
from residuum.estimators.answers import answer as ask
from residuum.inputs import ExpectedColumns, OwnData
from residuum.inputs.image_features import with_features, with_pixels
from residuum.models.evaluation import evaluate
from residuum.models.file import SavedModel, n_features_of, names_of, open_model
from residuum.models.saving import save_model
from residuum.scale.classifier import Sharded, is_sharded_model, load_model
from residuum.scale.runner import Local, Runner
from residuum.scale.sources import Part, parts_of
from residuum.system.files import file_digest, write_text, written_whole
from residuum.system.json_text import to_json
from residuum.system.progress import tell_progress

RUN, EVALUATION, OWN_MODEL = "run.json", "evaluation.json", "model.residuum"
WHAT = {"predict": "csv", "residuals": "npy", "codes": "npz", "probabilities": "npy", "evaluation": "npz"}


class Task(NamedTuple):
    """What is to be done with every part."""

    model: str  # a model file
    sha256: str
    what: str
    out: str


@dataclass(frozen=True)
class Piece:
    """A part of the source and its number."""

    number: int
    part: Part

    def __str__(self) -> str:
        return str(self.part)


def answer(
    model: Any,
    source: Any,
    out: str | Path,
    *,
    what: str = "predict",
    runner: Runner | None = None,
    rows: int | None = None,
    labels: Any = None,
    reading: dict[str, Any] | None = None,
) -> Path:
    """Answer all queries of a source, part by part, on this machine or on a cluster.

    Parameters
    ----------
    model : path, estimator or Sharded
        A model file, the folder of a sharded model, or a fitted estimator, which is saved in `out`.
    source : array, dask array, zarr array or path
        Queries: also a folder of .npy, .parquet or .csv parts, a table of any length, a folder of images.
    out : str or Path
        Folder of the answers; one that holds some of them already is completed.
    what : {"predict", "residuals", "codes", "probabilities", "evaluation"}, default="predict"
        One CSV file for each part, with the columns of ``residuum predict``; one .npy array with a column for
        each class; codes as a SciPy sparse .npz; or the figures of ``residuum evaluate`` on labelled queries.
    runner : Local or Dask, optional
        Where parts are answered; workers must see `model`, `source` and `out` under the same paths. A sharded
        model is asked by this process, whose passes go over the shards of its own runner.
    rows : int, optional
        Queries of a part, where the source does not say.
    labels : array-like or path, optional
        True labels for "evaluation", where the source has none.
    reading : dict, optional
        How tables are read: arguments of `residuum.inputs.read_data`.

    Returns
    -------
    Path
        The folder. Its files are the same to the last bit for every runner, and after every interruption.
    """
    if what not in WHAT:
        raise UsageError(f"The 'what' parameter of answer must be one of {', '.join(WHAT)}. Got {what!r}.")
    out = Path(out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    runner = runner or Local()
    if isinstance(model, str | Path) and is_sharded_model(Path(model)):
        model = load_model(model, runner=runner)
    sharded = isinstance(model, Sharded)
    task = _task(model, what, out)
    if sharded:
        about = {**model.shards_.read_as, "n_features": model.n_features_in_}
    else:
        saved = _opened(task.model, task.sha256)
        learned = {"n_features": n_features_of(saved), "columns": names_of(saved)}
        about = {**learned, **saved.about.get("input", {})}
    reading = _as_fitted(about, reading or {})
    pieces = [
        Piece(i, part) for i, part in enumerate(parts_of(source, labels=labels, rows=rows, reading=reading))
    ]
    _begin(out, task, pieces)
    left = [piece for piece in pieces if not _target(task, piece).exists()]
    if sharded:
        done: Iterable[int] = (_write(task, piece, SavedModel(model, {}, None)) for piece in left)
    else:
        done = runner.map(_answer_piece, left, task)
    for i, (piece, _) in enumerate(zip(left, done, strict=True), len(pieces) - len(left) + 1):
        if not _target(task, piece).exists():
            raise DataError(
                f"{_target(task, piece)} was written by a worker and is not seen here. The folder of the "
                "answers must be the same place for the client and all workers."
            )
        tell_progress("answering parts", i, len(pieces))
    if what == "evaluation":
        _evaluate(out, task, pieces)
    return out


def _task(model: Any, what: str, out: Path) -> Task:
    if isinstance(model, Sharded):
        digests = "".join(shard.sha256 for shard in model.shards_.shards)
        return Task("", f"{model.estimator_!r} {digests}", what, str(out))
    if isinstance(model, str | Path):
        return Task(str(Path(model).resolve()), file_digest(Path(model)), what, str(out))
    path = save_model(model, out / OWN_MODEL)
    return Task(str(path), file_digest(path), what, str(out))


def _as_fitted(about: dict[str, Any], reading: dict[str, Any]) -> dict[str, Any]:
    """How tables are read, by what was noted of the training samples."""
    if "expected" in reading or about.get("kind") == "images" or not about.get("n_features"):
        return reading
    columns = tuple(about.get("columns") or ()) or None
    without = tuple(about.get("without") or ())
    expected = ExpectedColumns(columns, about["n_features"], about.get("label"), (), without)
    return {**reading, "expected": expected}


def _begin(out: Path, task: Task, pieces: list[Piece]) -> None:
    """Note what is answered here, or refuse a folder that holds answers of another run."""
    described = {
        "what": task.what,
        "model": task.sha256,
        "parts": [str(piece) for piece in pieces],
    }
    path = out / RUN
    if path.exists() and json.loads(path.read_text("utf-8")) != described:
        raise UsageError(
            f"{out} holds answers of another model, of other parts or of another kind. Choose another "
            "folder, or remove it first."
        )
    write_text(path, json.dumps(described, indent=1) + "\n")


def _target(task: Task, piece: Piece) -> Path:
    return Path(task.out) / f"{piece.number:05}.{WHAT[task.what]}"


_models: dict[tuple[str, str], SavedModel] = {}  # that this process has opened


def _opened(path: str, sha256: str) -> SavedModel:
    """The model of a file, opened once by each process."""
    if (path, sha256) not in _models:
        if file_digest(Path(path)) != sha256:
            raise DataError(f"{path} is not the model file that the client has. All must see the same file.")
        _models.clear()
        _models[path, sha256] = open_model(path)
    return _models[path, sha256]


def _answer_piece(piece: Piece, task: Task) -> int:
    """Answer one part and write the file; the number of queries."""
    return _write(task, piece, _opened(task.model, task.sha256))


def _write(task: Task, piece: Piece, saved: SavedModel) -> int:
    data, estimator = _with_features(saved, piece.part.read())
    features = data.features
    with written_whole(_target(task, piece)) as file:
        if task.what == "codes":
            steps, classifier = steps_and_classifier(estimator)
            for step in steps:
                features = step.transform(features)
            sp.save_npz(file, sp.csr_array(classifier.encode(features)))
            return len(data)
        answers = ask(estimator, features)
        if task.what == "predict":
            file.write(_csv(records(answers, data.names, score=score_heading(estimator))).encode())
        elif task.what == "evaluation":
            if data.labels is None:
                raise DataError(f"{piece}: there are no labels to compare the answers with.")
            kept = {f.name: getattr(answers, f.name) for f in fields(Answers)}
            np.savez(file, truth=data.labels, **{k: v for k, v in kept.items() if v is not None})
        else:
            found = answers.residuals if task.what == "residuals" else answers.probabilities
            if found is None:
                raise UsageError("The model has no probabilities. Fit it with --probability to get them.")
            np.lib.format.write_array(file, found, allow_pickle=False)
    return len(data)


def _with_features(saved: SavedModel, data: OwnData) -> tuple[OwnData, Any]:
    """Queries with features, and the estimator that takes them: images lose the step that reads them."""
    if data.kind != "images":
        return data, saved.estimator
    about = saved.about.get("input", {})
    if (about.get("features") or {}).get("with") == "pixels":
        return with_pixels(data, about["image_shape"]), saved.estimator
    return with_features(data, saved.estimator[0]), saved.estimator[1:]


def _csv(rows: Iterable[dict[str, Any]]) -> str:
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    for i, record in enumerate(rows):
        if i == 0:
            writer.writerow(record)
        writer.writerow(str(v).lower() if isinstance(v, bool) else v for v in record.values())
    return table.getvalue()


def _evaluate(out: Path, task: Task, pieces: list[Piece]) -> None:
    """The figures of all parts together."""
    found: list[Any] = []
    for piece in pieces:
        with np.load(_target(task, piece), allow_pickle=False) as part:
            found.append({name: part[name] for name in part.files})
    joined = {name: np.concatenate([part[name] for part in found]) for name in found[0] if name != "classes"}
    truth = joined.pop("truth")
    write_text(out / EVALUATION, to_json(evaluate(Answers(found[0]["classes"], **joined), truth)))
