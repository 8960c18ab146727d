"""Save a fitted classifier, alone or at the end of a Pipeline, as the model file that `file` describes."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

import residuum
from residuum.errors import UsageError, WriteError
from residuum.models.file import BLANK, COMMENT, FORMAT, FORMAT_VERSION, MODEL, checked_images, parsed
from residuum.models.parts import chosen, classifier_node, selection_of, step_node
from residuum.selection import PipelineCV
from residuum.system.files import written_whole
from residuum.system.json_text import plain

_ALIGN = 64
_PADDING_FIELD = 0xD935  # the extra field by which zipalign pads
_DATE = (1980, 1, 1, 0, 0, 0)  # the same model makes the same bytes

Content = bytes | npt.NDArray[Any]


def save_model(
    estimator: Any,
    path: str | Path,
    *,
    about: dict[str, Any] | None = None,
    images: np.ndarray | None = None,
) -> Path:
    """Write a fitted model as one file, a zip of plain arrays and JSON, without pickle.

    The file is written under another name and renamed, so a failure leaves what was there before.

    Parameters
    ----------
    estimator : classifier or Pipeline
        A fitted classifier of residuum; one that chose its own parameters (``NRCCV``, ``PipelineCV`` ...),
        which is saved as its ``best_estimator_`` with the choice in ``about["selection"]``; or a fitted
        Pipeline of EigenfacePCA, KernelMap, Scattering2D, BowSift, CNNFeatures, scikit-learn's Normalizer,
        StandardScaler, MinMaxScaler and PCA that ends in one of them.
    path : str or Path
        Where to write.
    about : dict or None, default=None
        Notes of your own: anything that JSON can hold.
    images : ndarray of uint8, shape (n_samples, height, width[, 3]), or None, default=None
        Thumbnails of all training samples in the order they were given.

    Returns
    -------
    Path
        Where the model is.

    Examples
    --------
    >>> import tempfile
    >>> from residuum import NRC, load_model, save_model
    >>> model = NRC().fit([[2, 0, 0], [3, 1, 0], [0, 0, 1]], ["a", "a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_model(model, folder + "/letters.residuum")
    ...     load_model(path).predict([[5, 1, 1]])
    array(['a'], dtype='<U1')
    """
    path = Path(path)
    check_is_fitted(estimator)
    selection = selection_of(estimator)
    if isinstance(estimator, PipelineCV):
        estimator = estimator.best_estimator_
    *before, (last_name, last) = estimator.steps if isinstance(estimator, Pipeline) else [(None, estimator)]
    members: dict[str, Content] = {MODEL: b""}

    def keep(array: np.ndarray) -> str:
        name = f"{len(members)}.npy"
        members[name] = np.asarray(array)
        return name

    nodes = [{"name": name, **step_node(step, f"step {name!r}", keep)} for name, step in before]
    nodes.append({"name": last_name, **classifier_node(chosen(last), keep)})
    selection = selection or selection_of(last)
    described = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "residuum": residuum.__version__,
        "about": plain({**({"selection": selection} if selection else {}), **(about or {})}),
        "steps": nodes,
        "images": None if images is None else keep(checked_images(images, chosen(last).n_samples_seen_)),
    }
    try:
        content = json.dumps(described, indent=1, allow_nan=False).encode()
        parsed(np.frombuffer(content, np.uint8))
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"The 'about' parameter of save_model must be JSON that can be read: {error}."
        ) from error
    members[MODEL] = content
    _write_members(path, members)
    return path


def _write_members(path: Path, members: Mapping[str, Content]) -> None:
    """Write bytes as they are and arrays as .npy; a reader of `path` sees the old model or the new one."""
    try:
        with written_whole(path) as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                archive.comment = COMMENT + BLANK
                for name, content in members.items():
                    _write_member(archive, file.tell(), name, content)
            file.seek(0)
            seal = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
            file.seek(-len(BLANK), os.SEEK_END)
            file.write(seal.encode())
    except WriteError:
        raise
    except OSError as error:
        raise UsageError(f"{path}: the model cannot be written: {error.strerror or error}.") from error


def _write_member(archive: zipfile.ZipFile, position: int, name: str, content: Content) -> None:
    """Write a member whose data begin at a multiple of 64 bytes."""
    info = zipfile.ZipInfo(name, _DATE)
    info.external_attr = 0o644 << 16
    large = (len(content) if isinstance(content, bytes) else content.nbytes) > 2**31 - 2**20
    padding = -(position + 30 + len(name) + (20 if large else 0) + 4) % _ALIGN
    info.extra = struct.pack("<HH", _PADDING_FIELD, padding) + bytes(padding)
    with archive.open(info, "w", force_zip64=large) as target:
        if isinstance(content, bytes):
            target.write(content)
        else:
            np.lib.format.write_array(target, content, allow_pickle=False)
