"""Loaders on originals of the exact shape (synthetic), on damaged files, and on real data where it is."""

from __future__ import annotations

import bz2
import dataclasses
import gzip
import json
import os
import shutil
import struct
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from http_folder import served
from PIL import Image
from scipy.io import savemat

from residuum.cli.data import data as data_command
from residuum.errors import DataError, DataFormatError, DataNotFoundError, DownloadError, UsageError
from residuum.paper.data import DATASETS, Samples, data_home, load_dataset, load_images
from residuum.paper.data.ar import _read_face
from residuum.paper.data.intake import fetch, import_copy
from residuum.paper.data.pixels import box_resize
from residuum.paper.data.readers import read_idx, read_libsvm, read_mat, read_npz, read_picture
from residuum.paper.data.samples import array_samples
from residuum.paper.data.store import status, verify
from residuum.system.download import RemoteFile
from residuum.system.folders import cache_folder

Array = np.ndarray[Any, Any]
REAL = os.environ.get("RESIDUUM_DATA", "")
needs_real = pytest.mark.skipif(not REAL, reason="RESIDUUM_DATA is not set: no real data to read")

# ---------------------------------------------------------------- synthetic originals of the exact shape


def official_labels(name: str, part: str) -> Array:
    counts = DATASETS[name].counts.per_class[part]
    labels = np.repeat(np.arange(len(counts)), counts)
    return np.random.default_rng(len(labels)).permutation(labels)


def usps_patterns() -> Array:
    """One 16x16 image per digit, values k/1000 in [-1, 1], most of them 0; the digit 1 is an upright bar."""
    rng = np.random.default_rng(0)
    patterns = rng.integers(-1000, 1001, (10, 256)) / 1000 * (rng.random((10, 256)) < 0.1)
    bar = np.zeros((16, 16))
    bar[2:14, 7:9] = 1.0
    patterns[1] = bar.ravel()
    return patterns


@pytest.fixture(scope="module")
def usps_expected() -> Samples:
    labels = np.concatenate([official_labels("usps", "train"), official_labels("usps", "test")])
    images = ((usps_patterns() + 1) / 2)[labels].reshape(-1, 16, 16).astype(np.float32)
    groups = ((images[:7291], labels[:7291]), (images[7291:], labels[7291:]))
    return array_samples(Path("usps"), *groups)


def write_usps_libsvm(folder: Path) -> None:
    lines = [
        f"{digit + 1} " + " ".join(f"{i}:{value:g}" for i, value in enumerate(pattern, 1) if value)
        for digit, pattern in enumerate(usps_patterns())
    ]
    for name, part in (("usps.bz2", "train"), ("usps.t.bz2", "test")):
        text = "\n".join(lines[digit] for digit in official_labels("usps", part))
        (folder / name).write_bytes(bz2.compress(text.encode() + b"\n", 1))


def idx_bytes(array: Array) -> bytes:
    return (
        struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()
    )


def mnist_images(labels: Array) -> Array:
    images = np.zeros((len(labels), 28, 28), dtype=np.uint8)
    images[:, 3, 5] = labels * 20
    images[:, 20, 1] = np.arange(len(labels)) % 251
    return images


@pytest.fixture(scope="module")
def mnist_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mnist-originals")
    for part, stem in (("train", "train"), ("test", "t10k")):
        labels = official_labels("mnist", part)
        (folder / f"{stem}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(labels), 1))
        images = gzip.compress(idx_bytes(mnist_images(labels)), 1)
        (folder / f"{stem}-images-idx3-ubyte.gz").write_bytes(images)
    return folder


def pgm_bytes(image: Array, head: str = "P5\n# made by a test\n{w} {h}\n255\n") -> bytes:
    return head.format(w=image.shape[1], h=image.shape[0]).encode() + image.astype(np.uint8).tobytes()


def yale_image(subject: int, number: int) -> Array:
    """Blocks of 4x4 equal pixels, so that shrinking to 48x42 is exact; rows and columns differ."""
    rows, columns = np.indices((48, 42))
    return np.kron((rows * 3 + columns + subject + number) % 256, np.ones((4, 4), dtype=int))


BAD_NAMES = {(11, 3), (12, 63), (39, 0)}


@pytest.fixture(scope="module")
def yale_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("yale-originals") / "CroppedYale"
    for subject in (number for number in range(1, 40) if number != 14):
        person = folder / f"yaleB{subject:02d}"
        person.mkdir(parents=True)
        (person / f"yaleB{subject:02d}_P00.info").write_text("not an image")
        (person / f"yaleB{subject:02d}_P00_Ambient.pgm").write_bytes(b"P5\n1 1\n255\nx")
        for number in range(64):
            suffix = ".pgm.bad" if (subject, number) in BAD_NAMES else ".pgm"
            name = f"yaleB{subject:02d}_P00A+{number:03d}E+00{suffix}"
            content = pgm_bytes(yale_image(subject, number))
            (person / name).write_bytes(content[:-100] if (subject, number) == (39, 0) else content)
    return folder


def ar_image(label: int, number: int) -> Array:
    rows, columns = np.indices((60, 43))
    return (rows * 4 + columns % 4 + label + number) % 256  # differs along rows and along columns


def ar_matrix(numbers: range, skip: tuple[int, int] | None = None) -> tuple[Array, Array]:
    rows = [
        (ar_image(label, number).ravel(order="F"), label)  # image(:) of MATLAB
        for label in range(1, 101)
        for number in numbers
        if (label, number) != skip
    ]
    return np.array([row for row, _ in rows], dtype=np.uint8).T, np.array([[label for _, label in rows]])


def write_ar_mat(path: Path, **changes: Any) -> None:
    train, trainlabels = ar_matrix(range(1, 8))
    test, testlabels = ar_matrix(range(14, 21), skip=(77, 20))
    content = {
        "NewTrain_DAT": train,
        "NewTest_DAT": test,
        "trainlabels": trainlabels.astype(float),
        "testlabels": testlabels.astype(float),
    }
    savemat(path, {**content, **changes}, do_compression=True)


# ---------------------------------------------------------------- the data home


def test_data_home_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RESIDUUM_DATA", str(tmp_path / "variable"))
    assert data_home(tmp_path / "explicit") == tmp_path / "explicit"
    assert data_home() == tmp_path / "variable"
    monkeypatch.delenv("RESIDUUM_DATA")
    assert data_home() == cache_folder() / "data"


@pytest.mark.parametrize("name", [name for name in DATASETS if name != "digits"])
def test_missing_data_set_says_where_how_and_which_layout(name: str, tmp_path: Path) -> None:
    load = load_images if DATASETS[name].photographs else load_dataset
    with pytest.raises(DataNotFoundError) as caught:
        load(name, data_home=tmp_path)
    message = str(caught.value)
    assert isinstance(caught.value, FileNotFoundError)
    assert isinstance(caught.value, DataError)
    assert caught.value.exit_code == 3
    assert str(tmp_path / name) in message
    assert f"residuum data import {name}" in message
    assert "{size}" not in message
    assert ("residuum data fetch" in message) == (DATASETS[name].access == "open")
    assert list(tmp_path.iterdir()) == []


def test_unknown_name_and_bad_image_shape(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="one of digits, usps"):
        load_dataset("minst", data_home=tmp_path)
    with pytest.raises(UsageError, match=r"None for data sets of one size"):
        load_dataset("digits", image_shape=(4, 4))
    with pytest.raises(UsageError, match="height, width"):
        load_dataset("extended_yale_b", data_home=tmp_path, image_shape=(0, 48))


@pytest.mark.parametrize("dataset", DATASETS.values(), ids=DATASETS)
def test_every_declaration_is_complete(dataset: Any) -> None:
    assert DATASETS[dataset.name] is dataset
    assert dataset.licence
    assert dataset.citation
    assert dataset.access in ("bundled", "open", "registration")
    assert bool(dataset.files) == (dataset.access == "open")
    assert dataset.how_to_get or dataset.access != "registration"
    for remote in dataset.files:
        assert isinstance(remote, RemoteFile)
        assert all(url.startswith(("https://", "http://")) for url in remote.urls)
        assert remote.md5 is None or len(bytes.fromhex(remote.md5)) == 16
        assert remote.sha256 is None or len(bytes.fromhex(remote.sha256)) == 32


def test_digits() -> None:
    digits = load_dataset("digits")
    assert digits.images.shape == (1797, 8, 8)
    assert digits.labels.dtype == np.int64
    with pytest.raises(DataError, match="no official split"):
        _ = digits.x_train


# ---------------------------------------------------------------- loaders


@pytest.mark.parametrize("place", ["", "usps"])
@pytest.mark.parametrize("packed", [True, False])
def test_usps_originals(packed: bool, place: str, usps_expected: Samples, tmp_path: Path) -> None:
    (tmp_path / place).mkdir(exist_ok=True)
    write_usps_libsvm(tmp_path / place)
    if not packed:
        for path in (tmp_path / place).glob("*.bz2"):
            path.with_suffix("").write_bytes(bz2.decompress(path.read_bytes()))
            path.unlink()
    usps = load_dataset("usps", data_home=tmp_path)
    assert usps.source.startswith("LIBSVM")
    assert usps.images.dtype == np.float32
    np.testing.assert_array_equal(usps.labels, usps_expected.labels)
    np.testing.assert_allclose(usps.images, usps_expected.images, atol=1e-6)
    assert (len(usps.x_train), len(usps.x_test)) == (7291, 2007)


def test_other_sets_named_usps_are_refused(tmp_path: Path) -> None:
    write_usps_libsvm(tmp_path)
    train, test = tmp_path / "usps.bz2", tmp_path / "usps.t.bz2"
    train.rename(tmp_path / "aside")
    test.rename(train)
    (tmp_path / "aside").rename(test)
    with pytest.raises(DataFormatError, match="samples per class of the part 'train': expected"):
        load_dataset("usps", data_home=tmp_path)
    train.write_bytes(bz2.compress(b"".join(b"%d 1:255\n" % label for label in range(1, 11))))
    with pytest.raises(DataFormatError, match=r"values in \[-1, 1\]"):
        load_dataset("usps", data_home=tmp_path)
    train.write_bytes(bz2.compress(b"".join(b"%d 1:1\n" % label for label in range(10))))
    with pytest.raises(DataFormatError, match="labels 1 to 10"):
        load_dataset("usps", data_home=tmp_path)


def test_mnist_idx(mnist_folder: Path, tmp_path: Path) -> None:
    mnist = load_dataset("mnist", data_home=mnist_folder)
    assert mnist.x_train.shape == (60_000, 28, 28)
    assert mnist.x_test.dtype == np.uint8
    np.testing.assert_array_equal(mnist.y_test, official_labels("mnist", "test"))
    np.testing.assert_array_equal(mnist.x_test, mnist_images(mnist.y_test))
    for path in mnist_folder.iterdir():
        (tmp_path / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    np.testing.assert_array_equal(load_dataset("mnist", data_home=tmp_path).images, mnist.images)


@pytest.mark.parametrize("shape", [None, (48, 42)])
def test_yale_folder(shape: tuple[int, int] | None, yale_folder: Path) -> None:
    yale = load_dataset("extended_yale_b", data_home=yale_folder.parent, image_shape=shape)
    assert yale.images.shape == (2432, *(shape or (54, 48)))
    assert yale.images.dtype == np.uint8
    np.testing.assert_array_equal(np.unique(yale.labels), [n for n in range(1, 40) if n != 14])
    assert (np.unique(yale.labels, return_counts=True)[1] == 64).all()
    assert yale.extra["bad"].sum() == len(BAD_NAMES)
    assert yale.extra["names"][yale.extra["bad"]][0] == "yaleB11_P00A+003E+00.pgm.bad"
    damaged = yale.images[list(yale.extra["names"]).index("yaleB39_P00A+000E+00.pgm.bad")]
    left = yale_image(39, 0)
    left[-1, -100:] = 0  # these pixels are missing from the file
    np.testing.assert_array_equal(damaged, box_resize(left, shape or (54, 48)))
    index = list(yale.extra["names"]).index("yaleB20_P00A+017E+00.pgm")
    np.testing.assert_array_equal(yale.images[index], box_resize(yale_image(20, 17), shape or (54, 48)))
    if shape == (48, 42):
        np.testing.assert_array_equal(yale.images[index], yale_image(20, 17)[::4, ::4])


def test_yale_prepared_file_of_the_size_asked_for(tmp_path: Path) -> None:
    labels = np.repeat([n for n in range(1, 40) if n != 14], 64).astype(np.uint8)
    for h, w in ((54, 48), (48, 42)):
        images = np.full((2432, h, w), h, dtype=np.uint8)
        np.savez_compressed(tmp_path / f"extended_yale_b_{h}x{w}.npz", images=images, labels=labels)
    assert load_dataset("extended_yale_b", data_home=tmp_path).image_shape == (54, 48)
    assert load_dataset("extended_yale_b", data_home=tmp_path, image_shape=(48, 42)).images[0, 0, 0] == 48
    with pytest.raises(DataNotFoundError, match=r"extended_yale_b_54x48\.npz"):
        load_dataset("extended_yale_b", data_home=tmp_path, image_shape=(20, 20))
    assert len(verify(DATASETS["extended_yale_b"], tmp_path)) == 2


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("yaleB01_P00A+000E+00.pgm", bytes(2**20 + 1), "larger than 1048576 bytes, not an image of this set"),
        (
            "yaleB01_P00A+000E+00.pgm",
            pgm_bytes(np.zeros((48, 42))),
            r"expected 192x168 pixels, got \(48, 42\)",
        ),
        ("face.pgm", pgm_bytes(np.zeros((192, 168))), "holds no image named like yaleB01/yaleB01_P00A"),
    ],
)
def test_damaged_yale_folder(name: str, content: bytes, match: str, tmp_path: Path) -> None:
    (tmp_path / "CroppedYale/yaleB01").mkdir(parents=True)
    (tmp_path / "CroppedYale/yaleB01" / name).write_bytes(content)
    with pytest.raises(DataFormatError, match=match):
        load_dataset("extended_yale_b", data_home=tmp_path)


def test_yale_mat_of_another_shape(tmp_path: Path) -> None:
    savemat(tmp_path / "YaleBCrop025.mat", {"Y": np.zeros((2016, 64, 3), np.uint8)})
    with pytest.raises(DataFormatError, match=r"expected Y of 2016 x 64 x 38, got \(2016, 64, 3\)"):
        load_dataset("extended_yale_b", data_home=tmp_path, image_shape=(48, 42))


def test_yale_mat(tmp_path: Path) -> None:
    pixels = np.array(
        [[yale_image(s, n)[::4, ::4].ravel(order="F") for n in range(64)] for s in range(38)], dtype=np.uint8
    )  # (38, 64, 2016)
    savemat(tmp_path / "YaleBCrop025.mat", {"Y": pixels.transpose(2, 1, 0)})
    yale = load_dataset("extended_yale_b", data_home=tmp_path, image_shape=(48, 42))
    np.testing.assert_array_equal(yale.images[64 * 20 + 5], yale_image(20, 5)[::4, ::4])
    assert yale.labels[64 * 20 + 5] == 22  # the 21st subject; there is no 14th folder
    with pytest.raises(DataNotFoundError, match=r"only for image_shape=\(48, 42\)"):
        load_dataset("extended_yale_b", data_home=tmp_path)
    assert verify(DATASETS["extended_yale_b"], tmp_path)[0]["image_shape"] == (48, 42)
    imported = (
        "import",
        "extended_yale_b",
        str(tmp_path / "YaleBCrop025.mat"),
        "--data",
        str(tmp_path / "in"),
    )
    assert "note: A MATLAB copy does not say which images are marked bad.\n" in run(*imported).stderr


@pytest.mark.parametrize("name", ["AR_DAT.mat", "ar/AR_DAT.mat"])
def test_ar_mat_of_the_exact_shape(name: str, tmp_path: Path) -> None:
    (tmp_path / "ar").mkdir()
    write_ar_mat(tmp_path / name)
    ar = load_dataset("ar", data_home=tmp_path)
    assert ar.x_train.shape == (700, 60, 43)
    assert ar.x_test.shape == (699, 60, 43)
    np.testing.assert_array_equal(ar.x_train[7 * 4 + 2], ar_image(5, 3))
    np.testing.assert_array_equal(ar.x_test[-1], ar_image(100, 20))
    assert (ar.y_test == 77).sum() == 6
    assert ar.images.flags.c_contiguous


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"NewTrain_DAT": np.ones((700, 2580), dtype=np.uint8)}, "2580 rows"),
        ({"NewTest_DAT": np.ones((2200, 699), dtype=np.uint8)}, "2580 rows"),
        ({"NewTest_DAT": np.full((2580, 699), 300.0)}, "grey levels"),
        ({"trainlabels": np.zeros((1, 700))}, "labels 1 to 100"),
        ({"trainlabels": np.full((1, 700), 1.5)}, "whole numbers"),
        ({"trainlabels": np.ones((1, 5))}, "as many trainlabels"),
        ({"NewTest_DAT": np.full((2580, 5), 9), "testlabels": np.ones((1, 5))}, "expected 699 or 700, got 5"),
    ],
)
def test_ar_mat_of_another_shape_is_refused(changes: dict[str, Any], match: str, tmp_path: Path) -> None:
    write_ar_mat(tmp_path / "AR_DAT.mat", **changes)
    with pytest.raises(DataFormatError, match=match):
        load_dataset("ar", data_home=tmp_path)


def write_ar_folder(folder: Path, people: int = 50, skip: tuple[str, ...] = ()) -> None:
    """Images 165x120 of all 26 numbers, in one sub-folder; occluded ones are empty files never read."""
    folder.mkdir(parents=True)
    for sex, offset in (("M", 0), ("W", 50)):
        for person in range(1, people + 1):
            for number in range(1, 27):
                name = f"{sex}-{person:03d}-{number:02d}.pgm"
                if name in skip:
                    continue
                used = number in (*range(1, 8), *range(14, 21))
                image = np.full((165, 120), (offset + person) * 2 + number)
                (folder / name).write_bytes(pgm_bytes(image) if used else b"")


def test_ar_folder(tmp_path: Path) -> None:
    write_ar_folder(tmp_path / "ar" / "faces", skip=("W-027-14.pgm",))
    ar = load_dataset("ar", data_home=tmp_path)
    assert (len(ar.y_train), len(ar.y_test), ar.image_shape) == (700, 699, (60, 43))
    assert (ar.x_train[0] == 2 + 1).all()
    assert (ar.x_test[-1] == 200 + 20).all()
    np.testing.assert_array_equal(ar.y_train, np.repeat(np.arange(1, 101), 7))
    # The folder that is imported may hold the data home; what is being copied is not copied again.
    again = import_copy(DATASETS["ar"], tmp_path / "ar", tmp_path)
    np.testing.assert_array_equal(again.images, ar.images)
    assert sorted(path.name for path in (tmp_path / "ar").iterdir()) == ["AR", "faces"]
    shutil.rmtree(tmp_path / "ar" / "AR")
    (tmp_path / "ar" / "faces" / "M-001-01.pgm").unlink()
    with pytest.raises(DataFormatError, match=r"expected 50 men .* got 49"):
        load_dataset("ar", data_home=tmp_path)


def test_ar_bitmaps_in_colour(tmp_path: Path) -> None:
    grey = np.tile(np.arange(120, dtype=np.uint8), (165, 1))
    Image.fromarray(np.stack([grey] * 3, axis=2)).save(tmp_path / "M-001-01.bmp")
    got = _read_face(tmp_path / "M-001-01.bmp")
    assert got.shape == (60, 43)
    assert (np.diff(got.astype(int), axis=1) > 0).all()
    assert (got[0] == got[-1]).all()
    Image.fromarray(grey.T).save(tmp_path / "M-001-02.bmp")
    with pytest.raises(DataFormatError, match="165x120"):
        _read_face(tmp_path / "M-001-02.bmp")


def test_box_resize_is_the_mean_of_the_area() -> None:
    image = np.random.default_rng(0).integers(0, 256, (192, 168)).astype(np.uint8)
    means = image.reshape(48, 4, 42, 4).mean(axis=(1, 3))
    np.testing.assert_array_equal(box_resize(image, (48, 42)), np.rint(means).astype(np.uint8))
    fine = np.kron(image.astype(float), np.ones((9, 2)))  # 1728 x 336: exact blocks for 54 x 48
    exact = fine.reshape(54, 32, 48, 7).mean(axis=(1, 3))
    assert np.abs(box_resize(image, (54, 48)) - exact).max() <= 0.5 + 1e-9
    assert (box_resize(np.full((7, 5), 200, dtype=np.uint8), (3, 2)) == 200).all()
    with pytest.raises(UsageError, match="enlarging"):
        box_resize(image, (193, 10))


# ---------------------------------------------------------------- damaged and hostile files


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\x00\x08",
        b"\x00\x00\x08\x03\x00\x00",
        b"\x00\x00\x0d\x01\x00\x00\x00\x01\x00\x00\x00\x00",  # floats
        b"\x00\x00\x08\x09" + b"\x00\x00\x00\x01" * 9 + b"x",
        b"\x00\x00\x08\x03" + b"\xff\xff\xff\xff" * 3 + b"x",
        b"\x00\x00\x08\x03" + b"\x00\x00\x00\x00" * 3,
        idx_bytes(np.zeros((3, 4, 4)))[:-1],
        idx_bytes(np.zeros((3, 4, 4))) + b"x",
        b"<html>status 200</html>",
        # Without the time of day, as the bytes become the names of tests, which all workers must agree on.
        gzip.compress(idx_bytes(np.zeros((3, 4, 4))), mtime=0)[:-6],
        gzip.compress(b"\x00\x00\x08\x01\x0f\xff\xff\xff" + bytes(1000), mtime=0),  # 256 MiB declared
    ],
)
def test_damaged_idx(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(DataFormatError, match="file"):
        read_idx(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"P5\n0 4\n255\n",
        b"P5\n5000 2\n255\n" + bytes(10_000),
        b"P5\n99999 99999\n255\nxxxx",
        b"P5\n4 4\n255\n" + bytes(15),
        b"BM not really",
    ],
)
def test_damaged_picture(content: bytes) -> None:
    with pytest.raises(DataFormatError, match="somewhere"):
        read_picture(content, "somewhere")


@pytest.mark.parametrize(
    "text",
    ["", "1 1:0.5 1:0.6\n", "1 257:1\n", "1 0:1\n", "x 1:1\n", "1 1:x\n", "1 1\n", "1 2:1 1:1\n", "1:2:3"],
)
def test_damaged_libsvm(text: str, tmp_path: Path) -> None:
    (tmp_path / "usps").write_text(text)
    (tmp_path / "usps.t").write_text(text)
    with pytest.raises(DataFormatError):
        load_dataset("usps", data_home=tmp_path)


def test_libsvm_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("residuum.paper.data.readers.MAX_TEXT", 1_000_000)
    (tmp_path / "line").write_bytes(bz2.compress(b"1 " + b" " * 50_000_000))
    tracemalloc.start()
    with pytest.raises(DataFormatError, match="longer than"):
        read_libsvm(tmp_path / "line", 256)
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()


def npy_bytes(header: str) -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def write_zip(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '|u1', 'fortran_order': False, 'shape': (1000000, 1000000), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (200000000,), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (-5, -1), }",
        "{'descr': '|u1', 'shape': (5,), }",
        "__import__('os').system('false')",
    ],
)
def test_hostile_npz(header: str, tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.npz", x=npy_bytes(header) + b"12345")
    tracemalloc.start()
    with pytest.raises(DataFormatError, match=r"a\.npz"):
        read_npz(path, ("x",))
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


def test_npz_with_other_arrays_or_counts(tmp_path: Path) -> None:
    np.savez(tmp_path / "usps.npz", images=np.zeros(3))
    with pytest.raises(DataFormatError, match="x_train, y_train, x_test, y_test; got images"):
        load_dataset("usps", data_home=tmp_path)
    parts = {"x_train": np.zeros((10, 16, 16)), "x_test": np.zeros((10, 16, 16))}
    np.savez(tmp_path / "usps.npz", **parts, y_train=np.arange(10), y_test=np.arange(10))
    with pytest.raises(DataFormatError, match="per class of the part 'train': expected"):
        load_dataset("usps", data_home=tmp_path)
    np.savez(tmp_path / "usps.npz", **parts, y_train=np.arange(9), y_test=np.arange(10))
    with pytest.raises(DataFormatError, match="n labels"):
        load_dataset("usps", data_home=tmp_path)


def test_nan_and_wrong_extra_fields_are_refused() -> None:
    images, labels = np.zeros((3, 2, 2)), np.arange(3)
    array_samples(Path("x"), (images, labels), extra={"bad": labels})
    with pytest.raises(DataFormatError, match="3 entries in bad"):
        array_samples(Path("x"), (images, labels), extra={"bad": labels[1:]})
    images[1, 1, 1] = np.nan
    with pytest.raises(DataFormatError, match="NaN"):
        array_samples(Path("x"), (images, labels))


def small_files(folder: Path) -> dict[str, tuple[Path, Any]]:
    """One small valid file per binary format, and its reader."""
    image = np.arange(48, dtype=np.uint8).reshape(3, 4, 4)
    (folder / "a.idx").write_bytes(idx_bytes(image))
    (folder / "a.idx.gz").write_bytes(gzip.compress(idx_bytes(image)))
    np.savez_compressed(folder / "a.npz", x=image)
    savemat(folder / "a.mat", {"x": image}, do_compression=True)
    savemat(folder / "b.mat", {"x": image})
    (folder / "a.pgm").write_bytes(pgm_bytes(image[0]))
    return {
        "idx": (folder / "a.idx", read_idx),
        "idx.gz": (folder / "a.idx.gz", read_idx),
        "npz": (folder / "a.npz", lambda path: read_npz(path, ("x",))),
        "mat": (folder / "a.mat", lambda path: read_mat(path, ("x",))),
        "mat, plain": (folder / "b.mat", lambda path: read_mat(path, ("x",))),
        "pgm": (folder / "a.pgm", lambda path: read_picture(path, str(path))),
    }


@pytest.mark.parametrize("kind", ["idx", "idx.gz", "npz", "mat", "mat, plain", "pgm"])
def test_flipped_and_truncated_bytes_end_in_a_typed_error(kind: str, tmp_path: Path) -> None:
    path, read = small_files(tmp_path)[kind]
    whole = path.read_bytes()
    read(path)
    rng = np.random.default_rng(7)
    refused = 0
    for trial in range(220):
        content = bytearray(whole)
        if trial < 200:
            content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        else:
            del content[int(rng.integers(len(content))) :]
        path.write_bytes(content)
        try:
            read(path)
        except DataFormatError:
            refused += 1
    assert refused > 20


# ---------------------------------------------------------------- import, fetch, verify


def test_import_file_folder_and_archive(yale_folder: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    write_ar_mat(tmp_path / "my faces.mat")
    import_copy(DATASETS["ar"], tmp_path / "my faces.mat", home)
    assert sorted(path.name for path in (home / "ar").iterdir()) == ["AR_DAT.mat"]
    assert len(load_dataset("ar", data_home=home).labels) == 1399
    with pytest.raises(DataError, match="--force"):
        import_copy(DATASETS["ar"], tmp_path / "my faces.mat", home)
    import_copy(DATASETS["ar"], tmp_path / "my faces.mat", home, force=True)

    import_copy(DATASETS["extended_yale_b"], yale_folder, home)
    assert sorted(path.name for path in (home / "extended_yale_b").iterdir()) == ["CroppedYale"]
    import_copy(DATASETS["extended_yale_b"], yale_folder.parent, home, force=True)
    assert sorted(path.name for path in (home / "extended_yale_b").iterdir()) == ["CroppedYale"]
    assert len(load_dataset("extended_yale_b", data_home=home).labels) == 2432


def test_import_names_a_prepared_file_by_its_size(tmp_path: Path) -> None:
    labels = np.repeat([n for n in range(1, 40) if n != 14], 64).astype(np.uint8)
    np.savez_compressed(tmp_path / "mine.npz", images=np.zeros((2432, 48, 42), np.uint8), labels=labels)
    import_copy(DATASETS["extended_yale_b"], tmp_path / "mine.npz", tmp_path / "home")
    names = [path.name for path in (tmp_path / "home" / "extended_yale_b").iterdir()]
    assert names == ["extended_yale_b_48x42.npz"]


def test_import_of_an_archive_with_the_originals(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_usps_libsvm(tmp_path / "in")
    with zipfile.ZipFile(tmp_path / "usps-files.zip", "w") as archive:
        for path in (tmp_path / "in").iterdir():
            archive.write(path, f"usps/{path.name}")
    import_copy(DATASETS["usps"], tmp_path / "usps-files.zip", tmp_path / "home")
    assert sorted(p.name for p in (tmp_path / "home/usps").iterdir()) == ["usps.bz2", "usps.t.bz2"]


def test_failed_import_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "bad.npz").write_bytes(b"PK not a zip")
    (tmp_path / "folder").mkdir()
    (tmp_path / "bad.zip").write_bytes(b"PK not a zip")
    for name in ("bad.npz", "folder", "bad.zip"):
        with pytest.raises(DataFormatError, match="Expected one of"):
            import_copy(DATASETS["usps"], tmp_path / name, tmp_path / "home")
    with pytest.raises(DataNotFoundError, match="does not exist"):
        import_copy(DATASETS["usps"], tmp_path / "nothing", tmp_path / "home")
    assert list((tmp_path / "home" / "usps").iterdir()) == []


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    with served(tmp_path / "served") as address:
        yield address, tmp_path / "served"


def offline(name: str, **changes: Any) -> Any:
    """The declaration without its public addresses: tests never leave this machine."""
    dataset = DATASETS[name]
    files = tuple(dataclasses.replace(file, urls=(), **changes) for file in dataset.files)
    return dataclasses.replace(dataset, files=files)


def test_fetch_archive_is_unpacked_and_not_fetched_twice(
    mirror: tuple[str, Path], yale_folder: Path, tmp_path: Path
) -> None:
    url, served = mirror
    with zipfile.ZipFile(served / "CroppedYale.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted(yale_folder.rglob("*")):
            archive.write(path, f"CroppedYale/{path.relative_to(yale_folder)}")
    home = tmp_path / "home"
    samples = fetch(offline("extended_yale_b"), home, mirror=url)
    assert len(samples.labels) == 2432
    assert samples.source == f"owner's folder: {home / 'extended_yale_b' / 'CroppedYale'}"
    assert [path.name for path in (home / "extended_yale_b").iterdir()] == ["CroppedYale"]
    archive_path = served / "CroppedYale.zip"
    archive_path.write_bytes(archive_path.read_bytes()[:-1000])
    fetch(offline("extended_yale_b"), home, mirror=url)  # present: nothing is asked for
    with pytest.raises(DataFormatError, match=r"CroppedYale\.zip"):
        fetch(offline("extended_yale_b"), home, mirror=url, force=True)
    assert [path.name for path in (home / "extended_yale_b").iterdir()] == ["CroppedYale"]
    assert len(load_dataset("extended_yale_b", data_home=home).labels) == 2432


def test_fetch_refuses_a_wrong_checksum_and_wrong_content(mirror: tuple[str, Path], tmp_path: Path) -> None:
    """The synthetic LIBSVM files cannot match the published MD5; without it their counts still must."""
    url, served = mirror
    write_usps_libsvm(served)
    with pytest.raises(DownloadError, match="md5: expected ec16c51db3855ca6c91edd34d0e9b197"):
        fetch(offline("usps"), tmp_path / "home", mirror=url)
    assert list((tmp_path / "home" / "usps").iterdir()) == []
    (served / "usps.t.bz2").write_bytes(bz2.compress(b"1 2:3\n"))
    with pytest.raises(DataFormatError, match=r"usps\.t\.bz2"):
        fetch(offline("usps", md5=None), tmp_path / "home", mirror=url)
    assert list((tmp_path / "home" / "usps").iterdir()) == []


def test_what_is_always_there_is_neither_downloaded_nor_imported(tmp_path: Path) -> None:
    assert len(fetch(DATASETS["digits"], tmp_path).labels) == 1797
    with pytest.raises(UsageError, match="'digits' is always there and is never imported"):
        import_copy(DATASETS["digits"], tmp_path, tmp_path / "home")
    assert list(tmp_path.iterdir()) == []


def test_a_copy_that_is_there_is_not_downloaded(tmp_path: Path) -> None:
    write_usps_libsvm(tmp_path)
    assert len(fetch(offline("usps", md5=None), tmp_path).labels) == 9298  # there is no address to ask


def test_nothing_to_verify_says_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match=r"(?s)Put one of these there.*residuum data fetch usps"):
        verify(DATASETS["usps"], tmp_path)


def test_fetch_of_a_registration_only_set_says_how_to_apply(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match="Ohio State") as caught:
        fetch(DATASETS["ar"], tmp_path)
    for part in ("university account", "AR_DAT.mat", "2580x699", "M-001-01.bmp", "no passing on"):
        assert part in str(caught.value)
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- the command


def run(*arguments: str) -> Any:
    return CliRunner().invoke(data_command, list(arguments))


def test_command_status(tmp_path: Path) -> None:
    shown = run("status", "--data", str(tmp_path)).stdout
    assert all(set_.name in shown and set_.licence in shown for set_ in DATASETS.values())
    rows = json.loads(run("status", "--json", "--data", str(tmp_path)).stdout)["datasets"]
    assert {row["name"]: row["present"] for row in rows} == {name: name == "digits" for name in DATASETS}
    assert run("status", "--data", str(tmp_path)).exit_code == 0
    assert str(tmp_path) in run("status", "--data", str(tmp_path)).stdout
    missing = run("status", "ar", "--data", str(tmp_path))
    assert missing.exit_code == 3
    assert "residuum data import ar" in missing.stderr
    assert run("status", "nonsense").exit_code == 2
    assert run("fetch").exit_code == 2
    assert run("fetch", "usps", "--mirror", "ftp://x").exit_code == 2
    assert run("import", "ar").exit_code == 2


def test_command_import_verify_and_damage(tmp_path: Path) -> None:
    write_ar_mat(tmp_path / "AR_DAT.mat")
    home = str(tmp_path / "home")
    done = run("import", "ar", str(tmp_path / "AR_DAT.mat"), "--data", home)
    assert done.exit_code == 0
    assert "1399 samples, 100 classes" in done.stdout
    assert run("verify", "--data", home).exit_code == 0
    copy = tmp_path / "home" / "ar" / "AR_DAT.mat"
    assert str(copy) in run("status", "ar", "--data", home).stdout
    copy.write_bytes(copy.read_bytes()[:-500])
    damaged = run("verify", "ar", "--json", "--data", home)
    assert damaged.exit_code == 3
    assert json.loads(damaged.stdout)[0]["ok"] is False


def test_command_fetch_writes_results_to_stdout_only(
    mirror: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, served = mirror
    write_usps_libsvm(served)
    monkeypatch.setitem(DATASETS, "usps", offline("usps", md5=None))
    done = run("fetch", "usps", "--mirror", url, "--data", str(tmp_path / "home"))
    assert done.exit_code == 0
    assert done.stdout.startswith("usps: 9298 samples, 10 classes, LIBSVM")
    assert done.stdout.count("\n") == 1
    assert status(DATASETS["usps"], tmp_path / "home")["present"]


# ---------------------------------------------------------------- real data


@needs_real
@pytest.mark.parametrize("name", ["usps", "mnist", "extended_yale_b"])
def test_real_data(name: str) -> None:
    if not status(DATASETS[name], Path(REAL))["present"]:
        pytest.skip(f"{name} is not in RESIDUUM_DATA")
    samples = load_dataset(name, data_home=REAL)
    assert samples.labels.dtype == np.int64
    assert samples.images.max() > 0
    if name == "extended_yale_b" and "bad" in samples.extra:
        assert samples.extra["bad"].sum() == 18
    if name == "usps":
        assert samples.images.min() == 0
        assert samples.images.max() == 1
