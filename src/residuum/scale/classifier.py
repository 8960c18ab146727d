"""`Sharded`: a classifier of residuum over a dictionary in shards, of any size."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

import residuum
from residuum.dictionary import unit_rows
from residuum.errors import DataNotFoundError, ModelFileError, UsageError
from residuum.estimators import METHODS
from residuum.estimators.answers import Answering, Answers
from residuum.estimators.base import RepresentationClassifier, one_row
from residuum.estimators.explanation import Explanation
from residuum.estimators.labels import check_labels, joined_labels, plain_labels
from residuum.plain_numbers import check_numbers
from residuum.problem import Solution
from residuum.scale.admm import ShardedADMM
from residuum.scale.columns import ColumnGeneration
from residuum.scale.dictionary import ShardedDictionary
from residuum.scale.moments import ShardedClosedForm
from residuum.scale.runner import Local, Runner
from residuum.scale.sharding import part_content, row_keys
from residuum.scale.shards import Shard, Shards, open_shards, read_manifest, write_manifest, write_shard
from residuum.scale.soft import ShardedSoft
from residuum.solvers import ADMM, ActiveSet, ClosedForm, Newton
from residuum.system.files import write_text
from residuum.system.threads import all_or_nothing, snapshot

MODEL = "model.json"
FORMAT, FORMAT_VERSION = "residuum-sharded-model", 1
# How each solver works over shards.
SOLVERS: dict[type, Any] = {
    ClosedForm: ShardedClosedForm,
    ADMM: ShardedADMM,
    ActiveSet: ColumnGeneration,
    Newton: ShardedSoft,
}


def _not_over_shards(model: Any) -> UsageError:
    return UsageError(
        "The 'estimator' parameter of Sharded must be NSC, SRC, CRC, CROC, ProCRC, NRC or SoftNRC, whose "
        f"problems are solved over shards. Got {type(model).__name__}."
    )


class Sharded(Answering, ClassifierMixin, BaseEstimator):
    """A classifier whose training samples are in shards, on one machine or on the workers of a cluster.

    Parameters
    ----------
    estimator : NSC, SRC, CRC, CROC, ProCRC, NRC or SoftNRC
        The classifier, with its parameters and not fitted. Weights of classes are not supported.
    runner : Local or Dask, optional
        Where shards are worked on; threads of this process by default.
    batch : int, default=512
        Queries that a pass over the shards works on where codes are exact. It changes no result.

    Attributes
    ----------
    estimator_ : classifier
        The classifier over the dictionary in shards.
    shards_ : Shards
        What it was fitted to.
    classes_ : ndarray
        Sorted labels.

    Notes
    -----
    Atoms are float32. Results are the same to the last bit for every runner, every division of the shards
    among workers and every batch. They may differ in the last digits for other shards of the same samples,
    and, where codes are not exact, with the other queries of the same call.

    Examples
    --------
    >>> import tempfile
    >>> from residuum import NRC, scale
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = scale.shard([[2.0, 0, 0], [3, 1, 0], [0, 0, 1]], ["a", "a", "b"], folder)
    ...     scale.Sharded(NRC(solver="exact")).fit(folder).predict([[5.0, 1, 1]])
    array(['a'], dtype='<U1')
    """

    def __init__(self, estimator: Any, *, runner: Runner | None = None, batch: int = 512) -> None:
        self.estimator = estimator
        self.runner = runner
        self.batch = batch

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:
        """Take the shards of a folder as the training samples, and sum or search what queries need.

        Parameters
        ----------
        X : str, Path or Shards
            The folder that `shard` has written, or what `open_shards` gives.
        y : None
            Labels are in the shards.

        Returns
        -------
        self
        """
        if not isinstance(X, str | Path | Shards) or y is not None:
            raise UsageError(
                "fit of Sharded takes the folder of a dictionary in shards, whose labels are in it. Write "
                "arrays with residuum.scale.shard(X, y, folder) first."
            )
        if not isinstance(self.batch, int) or self.batch < 1:
            raise UsageError(f"The 'batch' parameter of Sharded must be 1 or more. Got {self.batch!r}.")
        self._take(X if isinstance(X, Shards) else open_shards(X))
        return self

    def _take(self, shards: Shards) -> None:
        model = clone(self.estimator)
        if not isinstance(model, RepresentationClassifier):
            raise _not_over_shards(model)
        if getattr(model, "class_weight", None) is not None:
            raise UsageError("The 'class_weight' parameter must be None for a dictionary in shards.")
        if not len(shards.classes):
            raise UsageError(f"{shards.folder} holds no atom to compare with.")
        model._validate_params()
        dictionary = ShardedDictionary(shards, self.runner or Local())
        model.classes_, model.dictionary_ = shards.classes, dictionary  # type: ignore[assignment]
        model.n_features_in_, model.n_samples_seen_ = shards.n_features, shards.n_samples
        model.solver_ = model._make_solver(dictionary)  # type: ignore[arg-type]
        for name in model._solver_names:
            solver = getattr(model, name)
            kind = next((kind for kind in SOLVERS if isinstance(solver, kind)), None)
            if kind is None or (kind is ActiveSet and solver.problem.classwise):
                raise _not_over_shards(model)
            sharded = SOLVERS[kind](solver, self.batch)
            sharded.prepare()
            setattr(model, name, sharded)
        self.estimator_, self.shards_ = model, shards
        self.classes_, self.n_features_in_ = model.classes_, model.n_features_in_

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any) -> Self:
        """Append samples to the folder as one more shard, of known or new classes, and take them in.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Labels of the same kind as before.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        X, y = (
            np.asarray(check_numbers(X, "X", "Sharded.partial_fit")),
            np.asarray(plain_labels(y, "Sharded")),
        )
        if X.ndim != 2 or X.shape[1] != self.n_features_in_ or len(X) != len(y) or not np.isfinite(X).all():
            raise UsageError(
                f"partial_fit takes finite samples of {self.n_features_in_} features with one label each. "
                f"Got X of shape {X.shape} and {len(y)} labels."
            )
        if y.dtype.kind not in "biu":
            check_labels(y)
        joined_labels(self.classes_, y, "Sharded.partial_fit")
        dictionary: Any = self.estimator_.dictionary_
        append(self.shards_, X, y, dictionary)
        self._take(open_shards(self.shards_.folder))
        return self

    def answer(self, X: Any, *, confidence: str = "margin") -> Answers:
        """Everything that is said about the queries, as by any classifier of residuum."""
        check_is_fitted(self)
        return self.estimator_.answer(X, confidence=confidence)

    def solve(self, X: Any, *, certify: bool = True) -> Solution:
        """Codes over all atoms with a certificate per query; atoms are in the order of ``dictionary_``.

        Codes of exact NRC and SRC are sparse. Others are dense, so that few queries at a time fit in memory.
        """
        check_is_fitted(self)
        return self.estimator_.solve(X, certify=certify)

    def encode(self, X: Any) -> Any:
        """Codes of the unit-norm queries over the atoms."""
        return self.solve(X, certify=False).codes

    def explain(self, query: Any, *, max_atoms: int | None = None) -> Explanation:
        """Why one query got its label: the atoms that carry it, the class residuals, the certificate."""
        check_is_fitted(self)
        model = self.estimator_
        if not isinstance(model.solver_, ColumnGeneration):
            return model.explain(query, max_atoms=max_atoms)
        # Only the atoms of the support are read: the model of one query has a dictionary of its own.
        row = validate_data(model, one_row(model, query), reset=False, dtype=np.float32)
        dictionary, solution = model.solver_.compact(unit_rows(row)[0])
        small = snapshot(model)
        small.dictionary_, small.solver_ = dictionary, _Solved(dictionary, solution, model.solver_.tol)
        return small.explain(query, max_atoms=max_atoms)

    def save_model(self, folder: str | Path) -> Path:
        """Write the model as a folder that refers to the shards by their checksums.

        Parameters
        ----------
        folder : str or Path
            Made if it is not there.

        Returns
        -------
        Path
            Where the model is; `load_model` of this room opens it.
        """
        check_is_fitted(self)
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        described = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "residuum": residuum.__version__,
            "method": type(self.estimator_).__name__,
            "parameters": {name: _written(v) for name, v in self.estimator_.get_params(deep=False).items()},
            "shards": str(self.shards_.folder),
            "sha256": [shard.sha256 for shard in self.shards_.shards],
        }
        write_text(folder / MODEL, json.dumps(described, indent=1) + "\n")
        return folder


class _Solved:
    """A solver that has solved its only query already."""

    has_threads, entries_per_query = True, 1

    def __init__(self, dictionary: Any, solution: Solution, tol: float) -> None:
        self.dictionary, self.tol, self._solution = dictionary, tol, solution

    def solve(self, queries: Any, *, certify: bool = True) -> Solution:
        """The solution."""
        return self._solution


def append(shards: Shards, X: Any, y: Any, dictionary: ShardedDictionary) -> None:
    """Write samples as one more shard of a folder, and then its manifest."""
    folder, described = shards.folder, read_manifest(shards.folder)
    order = np.argsort(y, kind="stable")
    unit, scale, norm = unit_rows(np.asarray(X, dtype=np.float32 if X.dtype == np.float32 else np.float64))
    order = order[scale[order] > 0]
    if len(order) < len(X):
        warnings.warn(
            f"{len(X) - len(order)} of {len(X)} samples are zero vectors and were not enrolled. Remove them "
            "to silence this warning.",
            UserWarning,
            stacklevel=4,
        )
    if not len(order):
        return
    atoms = unit[order].astype(np.float32) + np.float32(0)
    keys = row_keys(atoms)
    known = np.zeros(len(keys), dtype=bool)
    for _, found in dictionary.map(_equal_rows, keys):
        known |= found
    _, first = np.unique(keys, return_index=True)
    known[np.setdiff1d(np.arange(len(keys)), first)] = True
    rows = np.stack([described["n_samples"] + order, known.astype(np.int64)])
    part = write_shard(folder, len(described["parts"]), atoms, rows)
    labels, counts = np.unique(y[order], return_counts=True)
    norms = (scale[order].astype(np.float64) * norm[order]).astype(np.float64)
    part |= part_content(labels.tolist(), counts.tolist(), norms)
    write_manifest(
        folder,
        parts=[*described["parts"], part],
        n_features=shards.n_features,
        n_samples=described["n_samples"] + len(X),
        read_as=described["input"],
    )


def _equal_rows(shard: Shard, keys: Any) -> Any:
    return np.isin(keys, row_keys(shard.atoms()))


def load_model(folder: str | Path, *, runner: Runner | None = None, batch: int = 512) -> Sharded:
    """The model of a folder that `Sharded.save_model` has written.

    Parameters
    ----------
    folder : str or Path
        Where the model is.
    runner : Local or Dask, optional
        Where shards are worked on.
    batch : int, default=512
        Queries of a pass.

    Returns
    -------
    Sharded
        Fitted. Shards that were appended since are not part of it.
    """
    path = Path(folder) / MODEL
    if not path.is_file():
        raise DataNotFoundError(f"{folder} holds no model: there is no {MODEL}.")
    try:
        described = json.loads(path.read_text("utf-8"))
        if (described["format"], described["format_version"]) != (FORMAT, FORMAT_VERSION):
            raise ValueError(f"format version {described['format_version']!r} is not {FORMAT_VERSION}")
        values = {name: _read(value) for name, value in described["parameters"].items()}
        estimator = METHODS[described["method"]](**values)
        place, digests = str(described["shards"]), [str(digest) for digest in described["sha256"]]
    except (ValueError, LookupError, TypeError) as error:
        raise ModelFileError(f"{path}: does not describe a model in shards: {error!r}.") from error
    model = Sharded(estimator, runner=runner, batch=batch)
    return model.fit(open_shards(place, digests))


def is_sharded_model(path: Path) -> bool:
    """Whether a path is a folder that `Sharded.save_model` has written."""
    return (path / MODEL).is_file()


def _written(value: Any) -> Any:
    return {"float": str(value)} if isinstance(value, float) and not np.isfinite(value) else value


def _read(value: Any) -> Any:
    return float(value["float"]) if isinstance(value, dict) else value
