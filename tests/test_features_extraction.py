"""Features of many image files: resumable, nothing lost, nothing computed twice, in bounded memory."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from sklearn.base import BaseEstimator, TransformerMixin
from ugly_images import scene, write_ugly

from residuum.errors import DataError, DataNotFoundError

pytest.importorskip("cv2", reason="needs the extra 'images': opencv-python-headless")

from residuum.cli.features import features as command
from residuum.features import EXTRACTORS, BowSift, extract_folder, extract_images, read_image
from residuum.features.extraction import fit_extractor
from residuum.system.threads import in_order


class Means(TransformerMixin, BaseEstimator):
    """An extractor that counts how many images it was given."""

    def __init__(self, key: str = "means") -> None:
        self.key = key
        self.n_seen = 0
        self.fail_after: int | None = None

    def fit(self, X: Any, y: Any = None) -> Any:
        return self

    def read(self, source: Any) -> np.ndarray:
        return read_image(source)

    def fingerprint(self) -> str:
        return self.key

    def transform(self, images: list[np.ndarray]) -> np.ndarray:
        if self.fail_after is not None and self.n_seen >= self.fail_after:
            raise KeyboardInterrupt
        self.n_seen += len(images)
        return np.array([image.mean(axis=(0, 1)) for image in images], dtype=np.float32)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    for k, name in enumerate(("cat", "dog", "übel")):
        for i in range(30):
            path = folder / name / (f"{i:02d}.png" if i % 2 else f"deeper/{i:02d}.png")
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(scene(24, 30, seed=100 * k + i)).save(path)
    return folder


def test_features_labels_paths(photos: Path, tmp_path: Path) -> None:
    report = extract_folder(photos, Means(), out=tmp_path / "f.npz", cache_dir=tmp_path / "cache")
    assert (report["images"], report["classes"], report["features"]) == (90, 3, 3)
    assert (report["computed"], report["skipped"]) == (90, [])
    loaded = np.load(tmp_path / "f.npz")
    assert loaded["X"].shape == (90, 3)
    assert loaded["X"].dtype == np.float32
    assert list(loaded["paths"]) == sorted(loaded["paths"])
    assert "übel/deeper/28.png" in loaded["paths"]
    for row, label, path in zip(loaded["X"], loaded["y"], loaded["paths"]):
        assert path.startswith(label + "/")
        np.testing.assert_allclose(row, np.asarray(Image.open(photos / path)).mean(axis=(0, 1)), rtol=1e-5)
    assert loaded["extractor"] == "Means()"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "f.npz", "photos"]


def test_second_run_computes_nothing_and_writes_the_same_file(photos: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    extract_folder(photos, Means(), out=tmp_path / "a.npz", cache_dir=cache)
    again = Means()
    (photos / "cat" / "01.png").rename(photos / "cat" / "renamed.png")
    report = extract_folder(photos, again, out=tmp_path / "b.npz", cache_dir=cache)
    assert again.n_seen == report["computed"] == 0
    assert report["images"] == 90
    (photos / "cat" / "renamed.png").rename(photos / "cat" / "01.png")
    extract_folder(photos, again, out=tmp_path / "b.npz", cache_dir=cache, n_jobs=2)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    Image.fromarray(scene(24, 30, seed=999)).save(photos / "cat" / "01.png")
    assert extract_folder(photos, again, out=tmp_path / "b.npz", cache_dir=cache)["computed"] == 1
    other = extract_folder(photos, Means("other"), out=tmp_path / "b.npz", cache_dir=cache)
    assert other["computed"] == 90


def test_interrupted_run_goes_on_where_it_stopped(photos: Path, tmp_path: Path) -> None:
    first = Means()
    first.fail_after = 64
    with pytest.raises(KeyboardInterrupt):
        extract_folder(photos, first, out=tmp_path / "f.npz", cache_dir=tmp_path / "cache")
    assert not (tmp_path / "f.npz").exists()
    second = Means()
    report = extract_folder(photos, second, out=tmp_path / "f.npz", cache_dir=tmp_path / "cache")
    assert first.n_seen + second.n_seen == 90
    assert (report["computed"], report["images"]) == (26, 90)


def test_damaged_cache_entries_are_computed_again(photos: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    extract_folder(photos, Means(), out=tmp_path / "a.npz", cache_dir=cache)
    entries = sorted(cache.rglob("*.npy"))
    assert len(entries) == 90
    entries[0].write_bytes(b"")
    entries[1].write_bytes(entries[1].read_bytes()[:-4])
    flipped = bytearray(entries[2].read_bytes())
    flipped[-1] ^= 1
    entries[2].write_bytes(flipped)
    report = extract_folder(photos, Means(), out=tmp_path / "b.npz", cache_dir=cache)
    assert report["computed"] == 3
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_ugly_files_are_named_and_skipped(photos: Path, tmp_path: Path) -> None:
    expected = write_ugly(photos / "dog" / "ugly")
    (photos / "loose.txt").write_text("beside the classes")
    (photos / ".hidden").mkdir()
    (photos / "cat" / ".DS_Store").write_text("")
    report = extract_folder(photos, Means(), out=tmp_path / "f.npz", cache_dir=tmp_path / "cache")
    refused = {f"dog/ugly/{name}": reason for name, reason in expected.items() if reason}
    reasons = {file["path"]: file["reason"] for file in report["skipped"]}
    assert reasons.keys() == refused.keys() | {"loose.txt"}
    for path, reason in refused.items():
        assert reason in reasons[path]
    assert report["images"] == 90 + len(expected) - len(refused)
    assert dict(map(tuple, np.load(tmp_path / "f.npz")["skipped"].tolist())) == reasons


def test_an_extractor_learns_from_the_images_it_may_see(photos: Path, tmp_path: Path) -> None:
    paths = sorted((photos / "cat").rglob("*.png"))[:6]
    extractor = BowSift(n_words=6, patch=16)
    fit_extractor(extractor, paths[:3], cache_dir=tmp_path / "cache")
    found = extract_images(paths, extractor, cache_dir=tmp_path / "cache")
    np.testing.assert_array_equal(found.X, BowSift(n_words=6, patch=16).fit(paths[:3]).transform(paths))


def test_an_extractor_learns_from_a_thousand_images_at_most(photos: Path, tmp_path: Path) -> None:
    seen: list[Any] = []

    class Learning(Means):
        learned_array = "mean_"

        def fit(self, X: Any, y: Any = None) -> Any:
            seen.extend(X)
            self.mean_ = np.zeros(1)
            return self

    fit_extractor(Learning(), [photos / "cat" / "01.png"] * 1010, cache_dir=tmp_path / "cache")
    assert len(seen) == 1000


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_images_are_not_read_further_ahead_than_said(n_jobs: int) -> None:
    asked: list[int] = []
    results = in_order(lambda i: 2 * i, (asked.append(i) or i for i in range(100)), n_jobs=n_jobs, ahead=5)
    assert next(results) == 0
    assert len(asked) == 6
    assert list(results) == list(range(2, 200, 2))


def test_equal_files_are_computed_once(tmp_path: Path) -> None:
    for name in ("a/1.png", "b/1.png", "b/2.png"):
        (tmp_path / "p" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(scene(20, 20)).save(tmp_path / "p" / name)
    extractor = Means()
    report = extract_folder(tmp_path / "p", extractor, out=tmp_path / "f.npz", cache_dir=tmp_path / "c")
    assert (extractor.n_seen, report["images"]) == (1, 3)


def test_folder_without_classes(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    Image.fromarray(scene(20, 20)).save(tmp_path / "p" / "1.png")
    extract_folder(tmp_path / "p", Means(), out=tmp_path / "f.npz", cache_dir=tmp_path / "c")
    assert list(np.load(tmp_path / "f.npz")["y"]) == [""]


def test_memory_does_not_grow_with_the_folder(photos: Path, tmp_path: Path) -> None:
    """20,000 features per image: all rows at once would be 7 MB and more."""

    class Wide(Means):
        def transform(self, images: list[np.ndarray]) -> np.ndarray:
            return np.repeat(super().transform(images)[:, :1], 20_000, axis=1)

    extract_folder(photos, Wide("wide"), out=tmp_path / "f.npz", cache_dir=tmp_path / "cache")
    tracemalloc.start()
    try:
        extract_folder(photos, Wide("wide"), out=tmp_path / "f.npz", cache_dir=tmp_path / "cache")
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()
    assert (tmp_path / "f.npz").stat().st_size > 7_200_000


def test_bow_sift_is_fitted_on_the_folder_and_its_codebook_kept(photos: Path, tmp_path: Path) -> None:
    (photos / "dog" / "broken.jpg").write_bytes(b"\xff\xd8\xff")
    cache = tmp_path / "cache"
    first = BowSift(n_words=6, patch=16)
    extract_folder(photos, first, out=tmp_path / "a.npz", cache_dir=cache)
    second = BowSift(n_words=6, patch=16)
    report = extract_folder(photos, second, out=tmp_path / "b.npz", cache_dir=cache)
    assert report["computed"] == 0
    np.testing.assert_array_equal(first.codebook_, second.codebook_)
    loaded = np.load(tmp_path / "b.npz")
    np.testing.assert_array_equal(loaded["codebook"], first.codebook_)
    more = BowSift(n_words=6, patch=16)
    more.codebook_ = loaded["codebook"]
    np.testing.assert_array_equal(more.transform([photos / loaded["paths"][7]])[0], loaded["X"][7])


def test_a_list_of_files_in_any_order(photos: Path, tmp_path: Path) -> None:
    paths = sorted((photos / "cat").rglob("*.png"))[:6]
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"")
    found = extract_images([*paths, bad], Means(), cache_dir=tmp_path / "c")
    again = extract_images([str(bad), *paths[::-1]], Means(), cache_dir=tmp_path / "c", n_jobs=2)
    assert (found.n_computed, again.n_computed) == (6, 0)
    assert found.usable.tolist() == list(range(6))
    assert again.usable.tolist() == list(range(1, 7))
    assert found.skipped == again.skipped == ((str(bad), "empty file"),)
    np.testing.assert_allclose(
        found.X, [np.asarray(Image.open(p)).mean(axis=(0, 1)) for p in paths], rtol=1e-5
    )
    np.testing.assert_array_equal(again.X, found.X[::-1])
    shutil.rmtree(tmp_path / "c")
    with pytest.raises(DataError, match="vanished"):
        list(found.rows())


def test_errors_are_clear(photos: Path, tmp_path: Path) -> None:
    good = {"out": tmp_path / "f.npz", "cache_dir": tmp_path / "cache"}
    with pytest.raises(DataNotFoundError, match="one sub-folder per class"):
        extract_folder(tmp_path / "absent", Means(), **good)
    (tmp_path / "empty").mkdir()
    for extractor in (Means(), BowSift()):
        with pytest.raises(DataError, match="no usable image"):
            extract_folder(tmp_path / "empty", extractor, **good)
    with pytest.raises(DataError, match=r"no.f\.npz cannot be written"):
        extract_folder(photos, Means(), out=tmp_path / "no" / "f.npz", cache_dir=tmp_path / "cache")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="could not be kept"):
        extract_folder(photos, Means(), out=tmp_path / "f.npz", cache_dir=tmp_path / "file")
    assert not (tmp_path / "f.npz").exists()


def run(*arguments: object) -> Any:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_command(photos: Path, tmp_path: Path) -> None:
    shutil.rmtree(photos / "dog")
    (photos / "cat" / "bad.jpg").write_text("no")
    for i in range(3):  # enough patches for 1,024 words
        Image.fromarray(scene(256, 256, seed=i)).save(photos / "cat" / f"big{i}.png")
    out = tmp_path / "f.npz"
    common = (photos, "--with", "bow_sift_paper", "--out", out, "--cache", tmp_path / "cache", "--n-jobs", 1)
    first = run(*common, "--json")
    assert first.exit_code == 0, first.output
    summary = json.loads(first.stdout)
    assert (summary["images"], summary["features"], summary["computed"]) == (63, 5120, 63)
    assert summary["skipped"] == [{"path": "cat/bad.jpg", "reason": "not an image of a known format"}]
    second = run(*common)
    assert "63 reused" in second.stdout
    assert "skipped 'cat/bad.jpg'" in second.stderr
    assert np.load(out)["X"].shape == (63, 5120)
    for i in range(30):
        (photos / "cat" / f"worse{i:02d}.jpg").write_text("no")
    third = run(*common)
    told = third.stderr.count("skipped 'cat/")
    assert 0 < told < 31
    assert f"skipped {31 - told} more; all are listed in {out}." in third.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_leaves_nothing_half_written_and_the_next_run_goes_on(photos: Path, tmp_path: Path) -> None:
    """The process waits in the second batch until it is interrupted, so the clock plays no part."""
    code = (
        "import sys, threading\n"
        "from residuum.cli.main import main\n"
        "from residuum.features import BowSift\n"
        "transform, calls = BowSift.transform, []\n"
        "def slow(self, X):\n"
        "    calls.append(X)\n"
        "    if len(calls) == 2:\n"
        "        print('second batch', flush=True)\n"
        "        threading.Event().wait()\n"
        "    return transform(self, X)\n"
        "if sys.argv.pop(1) == 'slow':\n"
        "    BowSift.transform = slow\n"
        "BowSift.__init__.__kwdefaults__ |= {'stride': 1}\n"  # enough patches for 1,024 words
        "sys.exit(main(sys.argv[1:]))\n"
    )
    out, cache = tmp_path / "f.npz", tmp_path / "cache"
    command_line = [
        "features",
        photos,
        "--with",
        "bow_sift_paper",
        "--out",
        out,
        "--cache",
        cache,
        "--n-jobs",
        "2",
        "--json",
    ]

    def start(mode: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", code, mode, *map(str, command_line)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    first = start("slow")
    assert first.stdout is not None
    assert first.stdout.readline() == "second batch\n"
    first.send_signal(signal.SIGINT)
    said = first.communicate(timeout=120)[1]
    assert first.returncode == 130
    assert "goes on from there" in said
    assert "Traceback" not in said
    assert not out.exists()
    assert not [path for path in tmp_path.rglob("*") if path.suffix == ".part"]
    second = start("quick")
    summary = json.loads(second.communicate(timeout=120)[0])
    assert (summary["computed"], summary["reused"]) == (58, 32)
    assert out.exists()


def test_command_refuses_wrong_usage(photos: Path, tmp_path: Path) -> None:
    assert run(photos, "--with", "sift").exit_code == 2
    assert next(o for o in command.params if o.name == "extractor").type.choices == tuple(sorted(EXTRACTORS))
    wrong = [
        ("--out", tmp_path),
        ("--out", tmp_path / "no" / "f.npz"),
        ("--n-jobs", 0),
        ("--weights", "x.pth"),
    ]
    for option in wrong:
        assert getattr(run(photos, *option).exception, "exit_code", None) == 2
    assert run().exit_code == 2
    for arguments in (
        (tmp_path / "absent",),
        (photos, "--with", "vgg19", "--weights", tmp_path / "absent.pth"),
    ):
        result = run(*arguments, "--out", tmp_path / "f.npz")
        assert getattr(result.exception, "exit_code", None) == 3
