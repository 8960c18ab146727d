"""fit, predict, evaluate, explain and compare on image files, from the command line."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from residuum import NSC, save_model
from residuum.cli.main import main
from residuum.features import BowSift

pytest.importorskip("cv2", reason="needs the extra 'images': opencv-python-headless")


def texture(label: int, seed: int) -> np.ndarray:
    """Waves whose direction depends on the class, and noise."""
    rng = np.random.default_rng([label, seed])
    y, x = np.mgrid[:128, :128]
    angle = np.pi * label / 3 + rng.normal(scale=0.05)
    wave = 90 * np.sin((x * np.cos(angle) + y * np.sin(angle)) / 4 + rng.uniform(0, 6))
    grey = np.clip(128 + wave + rng.normal(scale=15, size=wave.shape), 0, 255)
    return np.dstack([grey, grey * 0.9, grey * 0.8]).astype(np.uint8)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Folders train and test of three classes, and a folder `new` without sub-folders."""
    home = tmp_path_factory.mktemp("photos")
    for part, seeds in (("train", range(6)), ("test", range(6, 9)), ("new", range(9, 11))):
        for label, name in enumerate(("flat", "rising", "steep")):
            folder = home / part if part == "new" else home / part / name
            folder.mkdir(parents=True, exist_ok=True)
            for seed in seeds:
                # Numbered alike in both parts: a training and a test image may have the same name.
                number = f"{name}-{seed}" if part == "new" else str(seed % 3)
                Image.fromarray(texture(label, seed)).save(folder / f"{number}.png")
    return home


@pytest.fixture(scope="module")
def model(photos, tmp_path_factory):
    """A calibrated model on BOW-SIFT, with the test folder held out."""
    path = tmp_path_factory.mktemp("model") / "waves.residuum"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(path.parent / "cache"))
        assert main(["fit", str(photos / "train"), "--probability", "--out", str(path)]) == 0
    return path


@pytest.fixture
def run(capsys, model, monkeypatch):
    """Run the command, with the features of the module kept; exit code, standard output and error."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(model.parent / "cache"))

    def call(*args):
        capsys.readouterr()
        code = main([str(arg) for arg in args])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def standard_input(monkeypatch, content: bytes):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_one_image_several_a_list_and_a_folder_get_the_same_answers(run, model, photos, monkeypatch):
    files = sorted((photos / "new").iterdir())
    code, told, notes = run("predict", model, photos / "new", "--json")
    assert code == 0
    found = json.loads(told)
    answers = found["answers"]
    assert [a["name"] for a in answers] == [file.name for file in files]
    assert [a["label"] for a in answers] == [file.name.split("-")[0] for file in files]
    assert found["features_used"] == ["BowSift()"]
    assert found["data"] == str(photos / "new")
    assert "Features: BowSift()" in notes

    def without_names(text):
        return [{**answer, "name": None} for answer in json.loads(text)["answers"]]

    _, several, _ = run("predict", model, *files, "--json")
    assert [a["name"] for a in json.loads(several)["answers"]] == list(map(str, files))
    names = [str(file).encode() for file in files]
    lists = b"\n".join(names) + b"\n\n", b"\r\n".join(names), b"\0".join(names) + b"\0"
    for text in lists:
        standard_input(monkeypatch, text)
        code, listed, _ = run("predict", model, "-", "--json")
        assert code == 0
        assert without_names(listed) == without_names(several) == without_names(told)
    _, one, _ = run("predict", model, files[3], "--json")
    assert without_names(one) == without_names(told)[3:4]
    _, table, _ = run("predict", model, files[3])
    assert next(csv.DictReader(table.splitlines()))["name"] == str(files[3])


def test_transparent_and_broken_images_in_a_list(run, model, tmp_path):
    pixels = np.dstack([texture(1, 20), np.full((128, 128), 255, np.uint8)])
    Image.fromarray(pixels).save(tmp_path / "alpha.png")
    Image.fromarray(texture(1, 21)).save(tmp_path / "whole.jpg")
    (tmp_path / "half.jpg").write_bytes((tmp_path / "whole.jpg").read_bytes()[:900])
    code, told, notes = run("predict", model, *(tmp_path / n for n in ("alpha.png", "half.jpg", "whole.jpg")))
    assert code == 0
    answers = list(csv.DictReader(told.splitlines()))
    assert [(a["name"][-9:], a["label"]) for a in answers] == [
        ("alpha.png", "rising"),
        ("whole.jpg", "rising"),
    ]
    assert "half.jpg': damaged or truncated" in notes
    for command in ("predict", "explain"):
        code, told, notes = run(command, model, tmp_path / "half.jpg")
        assert (code, told) == (3, "")
        assert "no usable image among 1 file." in notes
        assert "damaged or truncated" in notes


def test_wrong_data_for_a_model_of_images(run, model, photos, tmp_path, monkeypatch):
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    picture = photos / "new" / "flat-9.png"
    wrong = [
        ([tmp_path / "absent.jpg"], 3, "absent.jpg does not exist"),
        ([picture, tmp_path], 2, "is a folder. DATA is one folder of images, or one or more image files"),
        ([tmp_path / "rows.csv"], 2, "The model takes images"),
        (["-", picture], 2, "name no other files beside it"),
        (["-"], 3, "no name of an image in standard input"),
        ([], 2, "Missing argument"),
    ]
    for data, expected, text in wrong:
        standard_input(monkeypatch, b"\n")
        code, told, notes = run("predict", model, *data)
        assert (code, told) == (expected, "")
        assert text in notes


def test_a_model_of_numbers_takes_one_file(run, photos, tmp_path):
    rows = "".join(f"{x},{1 - x},{'ab'[int(x > 0.5)]}\n" for x in np.linspace(0, 1, 20))
    (tmp_path / "rows.csv").write_text("u,v,kind\n" + rows)
    out = tmp_path / "rows.residuum"
    code, told, _ = run("fit", tmp_path / "rows.csv", "--scale", "none", "--kernel", "none", "--out", out)
    assert code == 0
    assert "Features: numbers as they are" in told
    wrong = [
        ([tmp_path / "rows.csv", tmp_path / "rows.csv"], "DATA one file"),
        (["-"], "DATA must be a file"),
        ([photos / "new"], "The model takes numbers"),
        ([photos / "new" / "flat-9.png"], "the ending .png is not one of"),
    ]
    for data, text in wrong:
        code, told, notes = run("predict", out, *data)
        assert (code, told) == (2, "")
        assert text in notes
    code, _, notes = run("explain", out, tmp_path / "rows.csv")
    assert code == 2
    assert "--row must say which of the 20 samples" in notes
    code, _, notes = run("predict", out, tmp_path / "rows.csv", "--all-probabilities")
    assert code == 2
    assert "Fit it with --probability" in notes


def test_all_probabilities(run, model, photos):
    files = sorted((photos / "new").iterdir())[:2]
    code, told, _ = run("predict", model, *files, "--all-probabilities")
    assert code == 0
    rows = list(csv.DictReader(told.splitlines()))
    columns = [f"probability of {name}" for name in ("flat", "rising", "steep")]
    assert list(rows[0])[-4:] == ["probability", *columns]
    _, told, _ = run("predict", model, *files, "--all-probabilities", "--json")
    for row, answer in zip(rows, json.loads(told)["answers"], strict=True):
        assert [float(row[column]) for column in columns] == list(answer["probabilities"].values())
        assert sum(answer["probabilities"].values()) == pytest.approx(1)
        assert answer["probabilities"][answer["label"]] == answer["probability"]
    assert "probabilities" not in json.loads(run("predict", model, *files, "--json")[1])["answers"][0]


def test_explain_one_image(run, model, photos, tmp_path, monkeypatch):
    picture, page = photos / "new" / "steep-9.png", tmp_path / "why.html"
    code, told, _ = run("explain", model, picture, "--html", page)
    assert code == 0
    assert f"Why {picture}: steep" in " ".join(told.split())
    assert "Features: BowSift()" in told
    assert "Features: BowSift()" in page.read_text()
    _, told, _ = run("explain", model, picture, "--json")
    alone = json.loads(told)
    assert alone["features_used"] == ["BowSift()"]
    folder = tmp_path / "some"
    shutil.copytree(photos / "new", folder)
    (folder / "aaa.jpg").write_text("no image")
    code, told, notes = run("explain", model, folder, "--row", "steep-9.png", "--json")
    assert code == 0
    assert "aaa" not in notes  # only the image that is explained is read
    found = json.loads(told)
    assert found["row"] == sorted(path.name for path in folder.iterdir()).index("steep-9.png")
    assert (found["classes"], found["atoms"]) == (alone["classes"], alone["atoms"])
    standard_input(monkeypatch, str(picture).encode())
    _, told, _ = run("explain", model, "-", "--json")
    assert json.loads(told)["classes"] == alone["classes"]
    code, _, notes = run("explain", model, folder)
    assert code == 2
    assert "--row must say which of the 7 samples" in notes


def test_a_folder_of_test_images(run, photos, tmp_path, monkeypatch):
    seen, fit = [], BowSift.fit
    monkeypatch.setattr(BowSift, "fit", lambda self, X, y=None: seen.extend(X) or fit(self, X))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    out = tmp_path / "m.residuum"
    where = (photos / "train", "--test", photos / "test", "--with", "bow_sift_paper")
    code, told, _ = run("fit", *where, "--out", out, "--json")
    assert code == 0
    summary = json.loads(told)
    assert (summary["samples"], summary["held_out"]["samples"]) == (9, 9)
    assert summary["held_out"]["accuracy"] == 1
    (used,) = summary["features_used"]
    assert used.startswith("BowSift(patch=16, smoothing=0.1666")
    assert "square_root=False" in used
    assert len(seen) == 9
    assert all(str(photos / "train") in path for path in seen)
    code, told, _ = run("evaluate", out, photos / "test", "--json")
    assert code == 0
    assert json.loads(told)["features_used"] == [used]
    assert json.loads(told)["accuracy"] == 1
    assert f"Features: {used}" in run("evaluate", out, photos / "test")[1]
    code, told, _ = run("compare", *where, "--methods", "crc", "--out", tmp_path / "run", "--json")
    assert code == 0
    brief = json.loads(told)
    assert brief["settings"]["trials"] == 1
    assert brief["summary"][0]["accuracy_mean"] == 1
    assert brief["data"]["features"]["numbers"] == f"features by {used}"


def test_wrong_test_folders(run, photos, tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,x\n2,y\n")
    common = ("--out", tmp_path / "m.residuum")
    for data, test, expected, text in [
        (photos / "train", tmp_path / "rows.csv", 2, "--test must be of the kind of the training samples"),
        (tmp_path / "rows.csv", photos / "test", 2, "--test must be of the kind of the training samples"),
        (photos / "train", photos / "new", 3, "holds no labels"),
        (photos / "train", photos / "absent", 3, "does not exist"),
    ]:
        code, told, notes = run("fit", data, "--test", test, *common)
        assert (code, told) == (expected, "")
        assert text in notes
    parts = tmp_path / "parts"
    for part in ("train", "test"):
        shutil.copytree(photos / part, parts / part)
    code, _, notes = run("fit", photos / "train", "--test", parts, *common)
    assert code == 2
    assert "has training and test images itself" in notes


def test_an_interrupt_says_that_features_are_kept(run, photos, tmp_path, monkeypatch):
    def interrupted(*_args):
        raise KeyboardInterrupt

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(BowSift, "transform", interrupted)
    code, told, notes = run("fit", photos / "train", "--out", tmp_path / "m.residuum")
    assert (code, told) == (130, "")
    assert "The features computed so far are kept" in notes
    assert not (tmp_path / "m.residuum").exists()


def test_compare_goes_on_with_features_that_were_kept(photos, tmp_path):
    # In processes of their own: the second computes no features, so it loads fewer libraries than the first.
    command = [sys.executable, "-m", "residuum", "compare", str(photos / "train"), "--methods", "NSC"]
    command += ["--trials", "1", "--out", str(tmp_path / "run")]
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    first, second = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(2)
    )
    assert second.stdout == first.stdout
    assert "words learned from all images without their labels" in " ".join(first.stdout.split())


def test_pixels_of_images_of_one_size(run, tmp_path):
    for i, name in enumerate(("flat", "steep")):
        (tmp_path / "data" / name).mkdir(parents=True)
        for seed in range(3):
            Image.fromarray(texture(i, seed)).resize((12, 16)).save(tmp_path / "data" / name / f"{seed}.png")
    (tmp_path / "data" / "flat" / "bad.png").write_text("no image")
    fit = ("fit", tmp_path / "data", "--with", "pixels", "--out", tmp_path / "m.residuum")
    code, told, notes = run(*fit, "--json")
    assert code == 0
    assert "bad.png" in notes
    assert json.loads(told)["features_used"] == ["pixels of 16x12"]
    Image.fromarray(texture(0, 9)).resize((12, 17)).save(tmp_path / "data" / "flat" / "9.png")
    code, told, notes = run(*fit)
    assert (code, told) == (2, "")
    assert "have several sizes or are larger than 128 pixels. Give --image-shape HEIGHTxWIDTH" in notes


def test_a_model_of_images_without_a_step_that_reads_them_is_refused(run, photos, tmp_path):
    about = {"input": {"kind": "images", "features": {"with": "bow_sift"}}}
    bare = save_model(NSC().fit(np.eye(4), [0, 0, 1, 1]), tmp_path / "m.residuum", about=about)
    code, told, notes = run("predict", bare, photos / "new")
    assert (code, told) == (2, "")
    assert "The model was fitted to images, but holds no step that reads them." in notes


def test_small_images_become_pixels_of_the_size_of_training_images(run, tmp_path):
    for part, side in (("train", 16), ("test", 128)):
        for label, name in enumerate(("flat", "steep")):
            (tmp_path / part / name).mkdir(parents=True)
            for seed in range(4):
                image = Image.fromarray(texture(label, seed)).resize((side, side + 4))
                image.save(tmp_path / part / name / f"{seed}.png")
    out = tmp_path / "small.residuum"
    code, _, notes = run("fit", tmp_path / "train", "--test", tmp_path / "test", "--out", out)
    assert code == 0
    assert "too small for bow_sift, so the features are 20x16 pixels; --with" in notes
    code, told, _ = run("predict", out, tmp_path / "test" / "steep", "--json")
    assert code == 0
    assert [answer["label"] for answer in json.loads(told)["answers"]] == ["steep"] * 4

    code, _, notes = run("fit", tmp_path / "train", "--with", "bow_sift", "--out", out)
    assert code == 3
    assert "too small: 16 x 20 pixels, 32 are needed on each side; pixels as features take any size" in notes
