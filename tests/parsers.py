"""Every parser of files that may come from a stranger, each as ``parse(content, folder)``.

Whatever the bytes are, a parser returns or raises ResiduumError. The fuzzers of the battery search for bytes
that make it do otherwise; those that were found are kept in ``tests/corpus`` and tried again by a test.
"""

from __future__ import annotations

import hashlib
import io
import json
import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from residuum.errors import ResiduumError

GOLDEN = Path(__file__).parent / "golden" / "format-1-nrc.residuum"


def _written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def model_file(content: bytes, folder: Path) -> Any:
    """A model file as it is, whose seal a fuzzer hardly ever gets right."""
    from residuum.models.file import open_model

    return open_model(_written(folder, "model.residuum", content))


def model_description(content: bytes, folder: Path) -> Any:
    """The description in a model file with a good seal; a model that opens must answer or refuse."""
    from residuum.models.file import open_model

    path = folder / "described.residuum"
    path.write_bytes(sealed({**golden_members(), "model.json": content}))
    saved = open_model(path)
    n_features = getattr(saved.estimator, "n_features_in_", 1)
    if n_features <= 10_000:
        with _numeric_refusals():
            saved.estimator.predict(np.ones((1, n_features)))
    return saved


class _numeric_refusals:
    """Values that are allowed one by one can still make a model that cannot answer; that is said in words."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, _: Any) -> bool:
        return isinstance(error, ValueError)


@cache
def golden_members() -> dict[str, bytes]:
    """The members of a model file that opens."""
    with zipfile.ZipFile(GOLDEN) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def sealed(members: dict[str, bytes]) -> bytes:
    """A container of these members with a good seal: what an attacker with patience can make."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.comment = b"residuum model, sha256 " + b"0" * 64
        for name, data in members.items():
            archive.writestr(name, data)
    content = file.getvalue()
    return content[:-64] + hashlib.sha256(content).hexdigest().encode()


def _reader(name: str) -> Callable[[bytes, Path], Any]:
    def parse(content: bytes, folder: Path) -> Any:
        from residuum.inputs import read_data

        return read_data(_written(folder, name, content))

    return parse


def idx(content: bytes, folder: Path) -> Any:
    """An idx file, plain or compressed."""
    from residuum.paper.data.readers import read_idx

    return read_idx(_written(folder, "images-idx3-ubyte", content))


def libsvm(content: bytes, folder: Path) -> Any:
    """A LIBSVM file, plain or compressed."""
    from residuum.paper.data.readers import read_libsvm

    return read_libsvm(_written(folder, "usps", content), 256)


def image(content: bytes, folder: Path) -> Any:
    """An image file, by the readers of photographs and of data sets."""
    from residuum.features.image_files import read_image
    from residuum.paper.data.readers import read_picture

    path = _written(folder, "image.pgm", content)
    with suppress(ResiduumError):
        read_picture(path, str(path))
    return read_image(path, max_side=64, min_side=1)


def run_folder(content: bytes, folder: Path) -> Any:
    """A finished result of ``reproduce``."""
    from residuum.paper.report import read_contents, results_page

    place = folder / "run" / "cells" / "table1" / "54"
    place.mkdir(parents=True, exist_ok=True)
    _written(folder / "run", "settings.json", b"{}")
    _written(place, "trial-000-authors-CRC.json", content)
    trials = folder / "run" / "trials" / "table1"
    trials.mkdir(parents=True, exist_ok=True)
    _written(trials, "54-000.json", json.dumps({"labels": [1, 2, 3], "notes": []}).encode())
    return results_page(read_contents([folder / "run"]))


def archive(content: bytes, folder: Path) -> Any:
    """A zip or tar archive."""
    import shutil

    from residuum.system.archives import safe_extract

    target = folder / "target"
    shutil.rmtree(target, ignore_errors=True)
    return safe_extract(_written(folder, "archive", content), target)


def settings(content: bytes, folder: Path) -> Any:
    """NAME=VALUE of ``fit --set``."""
    from residuum.models import parse_settings

    return parse_settings("NRC", "fixed", content.decode("utf-8", "replace").splitlines())


PARSERS: dict[str, Callable[[bytes, Path], Any]] = {
    "model file": model_file,
    "model description": model_description,
    "text table": _reader("table.csv"),
    "npy": _reader("array.npy"),
    "npz": _reader("arrays.npz"),
    "matlab": _reader("arrays.mat"),
    "idx": idx,
    "libsvm": libsvm,
    "image": image,
    "run folder": run_folder,
    "archive": archive,
    "settings": settings,
}


def parse(name: str, content: bytes, folder: Path) -> None:
    """Parse some bytes; only an error that is not ResiduumError comes through."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(ResiduumError):
            PARSERS[name](content, folder)


def examples(name: str) -> list[bytes]:
    """Good files for a fuzzer to start from."""
    from PIL import Image
    from scipy.io import savemat

    def written(write: Callable[[Any], Any]) -> bytes:
        file = io.BytesIO()
        write(file)
        return file.getvalue()

    X, y = np.arange(12.0).reshape(4, 3), np.array([0, 1, 0, 1])
    picture = Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16))
    found = {
        "model file": [GOLDEN.read_bytes()],
        "model description": [golden_members()["model.json"]],
        "text table": [b"a,b,label\n1,2,x\n3,4,y\n", b"a;b;c\n1,5;2;x\n3;4;y\n", b"1\t2\t3\n4\t5\t6\n"],
        "npy": [written(lambda f: np.save(f, X)), written(lambda f: np.save(f, X.astype(np.float32).T))],
        "npz": [
            written(lambda f: np.savez(f, X=X, y=y)),
            written(lambda f: np.savez_compressed(f, X=X, y=y)),
        ],
        "matlab": [written(lambda f, k=k: savemat(f, {"X": X, "y": y}, format=k)) for k in ("4", "5")],
        "idx": [b"\x00\x00\x08\x03" + np.array([2, 2, 2], ">u4").tobytes() + bytes(range(8))],
        "libsvm": [b"1 1:0.5 256:-1\n2 3:1\n"],
        "image": [written(lambda f, k=k: picture.save(f, k)) for k in ("PPM", "PNG", "BMP", "GIF", "JPEG")],
        "run folder": [_cell()],
        "archive": [_zip(), b""],
        "settings": [b"rho=1\nmax_iter=5\nrule=residual", b"step_tol=None"],
    }
    return found[name]


def _cell() -> bytes:
    recipe = {"table": "table1", "row": 54, "trial": 0, "protocol": "authors", "method": "CRC", "quick": True}
    content = {"format": "residuum cell 2", "created": "", "recipe": recipe, "predictions": [1, 2, 3]}
    return json.dumps({**content, "parameters": {"l2": 0.1}}).encode()


def _zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a/b.txt", b"hello")
    return file.getvalue()
