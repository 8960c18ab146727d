"""Sets of photographs: trees of the owners' exact layouts and sizes, whole, damaged and cut down."""

from __future__ import annotations

import dataclasses
import json
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from http_folder import served
from scipy.io import savemat
from ugly_images import scene

from residuum.cli.data import data as command
from residuum.errors import DataError, DataFormatError, DataNotFoundError, UsageError
from residuum.paper.data import DATASETS, Counts, ImageSamples, load_dataset, load_images
from residuum.paper.data.intake import fetch, import_copy
from residuum.paper.data.store import status, verify

PHOTOS = ("stanford40", "caltech256", "cub200", "flowers102", "aircraft", "cars")


class Tree:
    """Writes image files as links to one tiny JPEG, which costs a thousand times less than new files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jpeg = folder / ".jpeg"
        folder.mkdir(parents=True, exist_ok=True)
        PIL = pytest.importorskip("PIL.Image", reason="needs the extra 'images': pillow")
        PIL.fromarray(scene(20, 20)).save(self.jpeg, format="JPEG")

    def images(self, place: str, names: list[str]) -> None:
        for name in names:
            path = self.folder / place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            os.link(self.jpeg, path)

    def lines(self, name: str, lines: list[str]) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")


def spread(total: int, classes: int) -> list[int]:
    return [total // classes + (k < total % classes) for k in range(classes)]


def write_flowers102(
    home: Path, per_part: tuple[int, int, int] = (1020, 1020, 6149), classes: int = 102
) -> None:
    tree = Tree(home / "flowers102")
    total = sum(per_part)
    order = np.random.default_rng(0).permutation(total) + 1
    tree.images("jpg", [f"image_{n:05d}.jpg" for n in range(1, total + 1)])
    savemat(
        tree.folder / "imagelabels.mat", {"labels": (np.arange(total) % classes + 1).astype(np.uint8)[None]}
    )
    ends = np.cumsum(per_part)
    parts = zip(("trnid", "valid", "tstid"), np.split(order, ends[:-1]))
    savemat(tree.folder / "setid.mat", {name: ids.astype(np.uint16)[None] for name, ids in parts})


def write_cub200(home: Path, folder: str = "cub200/CUB_200_2011") -> None:
    tree = Tree(home / folder)
    classes = [f"{k:03d}.Bird_{k}" for k in range(1, 201)]
    rows = [(name, i) for name, n in zip(classes, spread(11_788, 200)) for i in range(n)]
    tree.images("images", [f"{name}/{name[4:]}_{i:04d}.jpg" for name, i in rows])
    tree.lines("classes.txt", [f"{k} {name}" for k, name in enumerate(classes, 1)])
    tree.lines("images.txt", [f"{n} {name}/{name[4:]}_{i:04d}.jpg" for n, (name, i) in enumerate(rows, 1)])
    tree.lines("image_class_labels.txt", [f"{n} {int(name[:3])}" for n, (name, _) in enumerate(rows, 1)])
    train = set(np.random.default_rng(0).permutation(11_788)[:5994].tolist())
    tree.lines("train_test_split.txt", [f"{n} {int(n - 1 in train)}" for n in range(1, 11_789)])


def write_stanford40(home: Path) -> None:
    tree = Tree(home / "stanford40")
    for k, n in enumerate(spread(5532, 40)):
        action = f"doing_thing_{k:02d}"
        names = [f"{action}_{i:03d}.jpg" for i in range(1, n + 101)]
        tree.images("JPEGImages", names)
        tree.lines(f"ImageSplits/{action}_train.txt", names[:100])
        tree.lines(f"ImageSplits/{action}_test.txt", names[100:])
    tree.lines("ImageSplits/train.txt", ["not a list of one class"])
    tree.lines("ImageSplits/actions.txt", ["action_name number_of_train/test"])


def write_caltech256(home: Path) -> None:
    tree = Tree(home / "caltech256")
    for k, n in enumerate([*spread(29_780, 256), 827], 1):
        name = "001.ak47" if k == 1 else "257.clutter" if k == 257 else f"{k:03d}.thing-{k}"
        tree.images(f"256_ObjectCategories/{name}", [f"{k:03d}_{i:04d}.jpg" for i in range(1, n + 1)])
    tree.images("256_ObjectCategories/198.thing-198", ["RENAME2"])
    tree.images("256_ObjectCategories/056.thing-56/greg", ["056_0001.jpg"])


def write_aircraft(home: Path) -> None:
    tree = Tree(home / "aircraft")
    base = "fgvc-aircraft-2013b/data"
    variants = [f"Type {k}-{100 * k}" for k in range(1, 101)]
    tree.lines(f"{base}/variants.txt", variants)
    number = 0
    for part, n in (("train", 3334), ("val", 3333), ("test", 3333)):
        rows = [(f"{number + i:07d}", variants[i % 100]) for i in range(n)]
        number += n
        tree.images(f"{base}/images", [f"{image}.jpg" for image, _ in rows])
        tree.lines(f"{base}/images_variant_{part}.txt", [f"{image} {variant}" for image, variant in rows])


def write_cars(home: Path) -> None:
    tree = Tree(home / "cars")
    (tree.folder / "devkit").mkdir()
    names = np.array([f"Maker Model {k} 2012" for k in range(1, 197)], dtype=object)
    savemat(tree.folder / "devkit/cars_meta.mat", {"class_names": names[None]})
    kind = [(field, object) for field in ("bbox_x1", "class", "fname")]
    for part, n, file in (
        ("train", 8144, "devkit/cars_train_annos.mat"),
        ("test", 8041, "cars_test_annos_withlabels.mat"),
    ):
        files = [f"{i:05d}.jpg" for i in range(1, n + 1)]
        tree.images(f"cars_{part}", files)
        rows = np.array([(1, i % 196 + 1, file) for i, file in enumerate(files)], dtype=kind)
        savemat(tree.folder / file, {"annotations": rows[None]})


WRITERS: dict[str, Callable[[Path], None]] = {
    "stanford40": write_stanford40,
    "caltech256": write_caltech256,
    "cub200": write_cub200,
    "flowers102": write_flowers102,
    "aircraft": write_aircraft,
    "cars": write_cars,
}
COUNTS = {  # images, classes, training images
    "stanford40": (9532, 40, 4000),
    "caltech256": (29_780, 256, None),
    "cub200": (11_788, 200, 5994),
    "flowers102": (8189, 102, 2040),
    "aircraft": (10_000, 100, 6667),
    "cars": (16_185, 196, 8144),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    for write in WRITERS.values():
        write(folder)
    return folder


@pytest.mark.parametrize("name", PHOTOS)
def test_owners_layout_is_read(name: str, home: Path) -> None:
    samples = load_images(name, data_home=home)
    n_images, n_classes, n_train = COUNTS[name]
    assert isinstance(samples, ImageSamples)
    assert (len(samples.paths), samples.n_classes) == (n_images, n_classes)
    assert samples.labels.dtype == np.int64
    assert (samples.labels.min(), samples.labels.max()) == (1, n_classes)
    assert set(samples.class_names) == set(range(1, n_classes + 1))
    assert samples.paths[0].read_bytes()[:2] == b"\xff\xd8"
    assert str(home / name) in samples.source
    if n_train is not None:
        assert len(samples.train_paths) == len(samples.y_train) == n_train
        assert len(samples.test_paths) == len(samples.y_test) == n_images - n_train
        assert not set(samples.train_paths) & set(samples.test_paths)
    with pytest.raises(UsageError, match="load_images"):
        load_dataset(name, data_home=home)


def test_labels_and_parts_are_the_owners(home: Path) -> None:
    cub = load_images("cub200", data_home=home)
    split = dict(line.split() for line in (home / "cub200/CUB_200_2011/train_test_split.txt").open())
    for i in (0, 57, 5000, 11_787):
        assert cub.paths[i].parent.name == cub.class_names[int(cub.labels[i])]
        assert bool(cub.is_train[i]) == (split[str(i + 1)] == "1")
    cars = load_images("cars", data_home=home)
    assert cars.paths[8144] == home / "cars/cars_test/00001.jpg"
    assert cars.class_names[int(cars.labels[8144 + 5])] == "Maker Model 6 2012"
    actions = load_images("stanford40", data_home=home)
    assert actions.class_names[1] == "doing thing 00"
    assert actions.train_paths[0].name == "doing_thing_00_001.jpg"
    aircraft = load_images("aircraft", data_home=home)
    assert aircraft.class_names[3] == "Type 3-300"
    assert aircraft.labels[2] == 3
    assert "banner" in aircraft.notes[0]


def test_flowers_parts(home: Path) -> None:
    """The owner's numbers, from the files themselves: which images train is a matter of record."""
    from scipy.io import loadmat

    sets = loadmat(home / "flowers102/setid.mat")
    labels = loadmat(home / "flowers102/imagelabels.mat")["labels"].ravel()
    flowers = load_images("flowers102", data_home=home)
    number = {path: int(path.stem[-5:]) for path in flowers.paths}
    train = {number[path] for path in flowers.train_paths}
    assert train == set(sets["trnid"].ravel().tolist()) | set(sets["valid"].ravel().tolist())
    assert {number[path] for path in flowers.test_paths} == set(sets["tstid"].ravel().tolist())
    for path, label in zip(flowers.paths, flowers.labels):
        assert label == labels[number[path] - 1]
    small = dataclasses.replace(flowers, train_parts=("train",))
    assert {number[path] for path in small.train_paths} == set(sets["trnid"].ravel().tolist())
    assert len(small.test_paths) == 7169


def test_caltech_has_no_split_but_random_ones(home: Path) -> None:
    caltech = load_images("caltech256", data_home=home)
    assert not any("clutter" in str(path) or "greg" in str(path) for path in caltech.paths)
    with pytest.raises(DataError, match="no official split"):
        _ = caltech.train_paths
    first, again, other = (caltech.random_split(30, random_state=seed) for seed in (0, 0, 1))
    assert (np.bincount(first.y_train)[1:] == 30).all()
    assert len(first.test_paths) == 29_780 - 256 * 30
    assert first.train_paths == again.train_paths != other.train_paths
    with pytest.raises(UsageError, match="'n_per_class'"):
        caltech.random_split(500)


@pytest.mark.parametrize("name", PHOTOS)
def test_missing_images_are_named_unless_a_subset_is_meant(name: str, home: Path) -> None:
    whole = load_images(name, data_home=home)
    victims = whole.paths[3:40:4]
    for path in victims:
        path.rename(path.with_name(path.name + ".gone"))
    try:
        if name == "caltech256":  # it has no list: what is missing shows in the count
            with pytest.raises(DataFormatError, match=r"samples: expected 29780 or 29781, got 29770"):
                load_images(name, data_home=home)
        else:
            with pytest.raises(
                DataFormatError, match=rf"10 of {len(whole.paths)} images are missing"
            ) as caught:
                load_images(name, data_home=home)
            assert str(victims[0]) in str(caught.value)
        part = load_images(name, data_home=home, subset=True)
        assert part.paths == tuple(path for path in whole.paths if path not in victims)
        assert part.notes[-1].startswith(f"A subset: {len(whole.paths) - 10} images")
    finally:
        for path in victims:
            path.with_name(path.name + ".gone").rename(path)


def test_wrong_counts_are_named(home: Path, tmp_path: Path) -> None:
    write_flowers102(tmp_path, (1020, 1000, 6169))
    with pytest.raises(
        DataFormatError, match=r"part 'val': expected 1020, got 1000.*part 'test': expected 6149"
    ):
        load_images("flowers102", data_home=tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "match"),
    [
        ("images.txt", "1 ../../../etc/passwd\n", "leads outside|same images"),
        ("images.txt", "one a.jpg\n", "number value"),
        ("images.txt", "1 a.jpg\n1 b.jpg\n", "each number once"),
        ("images.txt", "", "got none"),
        ("images.txt", "1 \xff\n", "not a text"),
        ("image_class_labels.txt", "1 7\n", "the class 7"),
        ("image_class_labels.txt", "1 x\n", "class numbers"),
        ("train_test_split.txt", "1 2\n", "1 \\(train\\) or 0"),
        ("train_test_split.txt", "2 1\n", "same images"),
    ],
)
def test_damaged_lists(tmp_path: Path, file: str, content: str, match: str) -> None:
    tree = Tree(tmp_path / "CUB_200_2011_mine")
    tree.images("images", ["001.A/a.jpg"])
    for name, line in (
        ("images.txt", "1 001.A/a.jpg"),
        ("image_class_labels.txt", "1 1"),
        ("train_test_split.txt", "1 1"),
        ("classes.txt", "1 001.A"),
    ):
        tree.lines(name, [line])
    assert len(load_images("cub200", data_home=tmp_path, subset=True).paths) == 1
    (tree.folder / file).write_bytes(content.encode("latin-1"))
    with pytest.raises(DataFormatError, match=match):
        load_images("cub200", data_home=tmp_path, subset=True)


def write_few_aircraft(home: Path, second: str = "Type 2") -> None:
    tree, base = Tree(home / "aircraft/fgvc-aircraft-2013b"), "data/images_variant"
    tree.lines("data/variants.txt", ["Type 1", "Type 2"])
    for part, variant in (("train", "Type 1"), ("val", second), ("test", "Type 2")):
        tree.lines(f"{base}_{part}.txt", [f"0000001{'abc'[len(part) % 3]} {variant}"])


def test_lists_of_other_sets_are_refused(tmp_path: Path) -> None:
    write_few_aircraft(tmp_path, second="Type 3")
    with pytest.raises(DataFormatError, match=r"_val\.txt: expected 'image variant' .*'0000001. Type 3'"):
        load_images("aircraft", data_home=tmp_path, subset=True)
    for name in ("001.ak47", "001.harp"):
        Tree(tmp_path / "caltech256/256_ObjectCategories").images(name, ["001_0001.jpg"])
    with pytest.raises(DataFormatError, match="two folders have the number 1"):
        load_images("caltech256", data_home=tmp_path, subset=True)
    Tree(tmp_path / "stanford40/JPEGImages").lines("../ImageSplits/actions.txt", ["action"])
    with pytest.raises(DataFormatError, match=r"holds no list named like applauding_train\.txt"):
        load_images("stanford40", data_home=tmp_path)
    lists = Tree(tmp_path / "stanford40")
    lists.lines("ImageSplits/waving_train.txt", ["waving_1.jpg", "waving_1.jpg"])
    lists.lines("ImageSplits/waving_test.txt", ["waving_2.jpg"])
    with pytest.raises(DataFormatError, match="expected a list of images, each once; got 3 lines"):
        load_images("stanford40", data_home=tmp_path)


def test_a_subset_needs_an_image(tmp_path: Path) -> None:
    write_few_aircraft(tmp_path)
    with pytest.raises(DataFormatError, match=r"aircraft .*: none of the listed images is there"):
        load_images("aircraft", data_home=tmp_path, subset=True)


def test_annotations_without_a_field_are_refused(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "cars")
    (tree.folder / "devkit").mkdir()
    for part in ("train", "test"):
        tree.images(f"cars_{part}", ["00001.jpg"])
    savemat(tree.folder / "devkit/cars_meta.mat", {"class_names": np.array([["Maker"]], dtype=object)})
    rows = np.array([(1, "00001.jpg")], dtype=[("bbox_x1", object), ("fname", object)])
    for file in ("devkit/cars_train_annos.mat", "cars_test_annos_withlabels.mat"):
        savemat(tree.folder / file, {"annotations": rows[None]})
    with pytest.raises(DataFormatError, match=r"cars_train_annos\.mat: 'annotations' lacks the field class"):
        load_images("cars", data_home=tmp_path, subset=True)


@pytest.mark.parametrize("damage", ["truncated", "twice", "labels", "text"])
def test_damaged_flowers(tmp_path: Path, damage: str) -> None:
    write_flowers102(tmp_path, (2, 2, 4), classes=2)
    folder = tmp_path / "flowers102"
    if damage == "truncated":
        content = (folder / "setid.mat").read_bytes()
        (folder / "setid.mat").write_bytes(content[: len(content) // 2])
    elif damage == "twice":
        ids = np.arange(1, 5)
        savemat(folder / "setid.mat", {"trnid": ids, "valid": ids, "tstid": ids})
    elif damage == "labels":
        savemat(folder / "imagelabels.mat", {"labels": np.full((1, 8), 103)})
    else:
        savemat(folder / "imagelabels.mat", {"labels": "rose"})
    with pytest.raises(DataFormatError, match=r"setid|103|holds"):
        load_images("flowers102", data_home=tmp_path, subset=True)


def test_missing_sets_say_what_is_missing(tmp_path: Path) -> None:
    write_flowers102(tmp_path, (2, 2, 4), classes=2)
    (tmp_path / "flowers102/setid.mat").unlink()
    with pytest.raises(DataNotFoundError, match=r"Incomplete copy.*setid.mat missing"):
        load_images("flowers102", data_home=tmp_path)
    with pytest.raises(DataNotFoundError, match="dead since 2023") as caught:
        load_images("cars", data_home=tmp_path)
    for part in ("Kaggle", "fast.ai", "SHA-256", "cars_test_annos_withlabels.mat"):
        assert part in str(caught.value)
    with pytest.raises(UsageError, match="load_dataset"):
        load_images("digits")


def test_verify_checks_the_published_checksums(home: Path) -> None:
    """Synthetic lists are right in every count, and still not the published ones."""
    for name, file in (("flowers102", "imagelabels.mat"), ("cars", "cars_test_annos_withlabels.mat")):
        with pytest.raises(DataFormatError, match=rf"{file}: (size|sha256): expected"):
            verify(DATASETS[name], home)
    report = verify(DATASETS["cub200"], home)[0]
    assert (report["samples"], report["classes"], report["image_shape"]) == (11_788, 200, None)


def small(name: str, n_images: int, **changes: Any) -> Any:
    """The declaration for a tiny copy, without addresses and published checksums."""
    dataset = DATASETS[name]
    files = tuple(
        dataclasses.replace(file, urls=(), size=None, sha256=None, md5=None) for file in dataset.files
    )
    return dataclasses.replace(dataset, files=files, counts=Counts(2, n_samples=(n_images,)), **changes)


def test_import_puts_the_tree_into_the_data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_flowers102(tmp_path, (2, 2, 4), classes=2)
    monkeypatch.setitem(DATASETS, "flowers102", small("flowers102", 8))
    samples = import_copy(DATASETS["flowers102"], tmp_path / "flowers102", tmp_path / "home")
    assert samples.paths[0] == tmp_path / "home/flowers102/jpg/image_00001.jpg"
    assert samples.paths[0].is_file()
    assert status(DATASETS["flowers102"], tmp_path / "home")["present"]
    result = CliRunner().invoke(command, ["verify", "flowers102", "--data", str(tmp_path / "home")])
    assert result.exit_code == 0
    assert "8 samples, 2 classes" in result.stdout


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    with served(tmp_path / "served") as address:
        yield address, tmp_path / "served"


def test_fetch_of_archive_and_plain_files_together(mirror: tuple[str, Path], tmp_path: Path) -> None:
    url, served = mirror
    write_flowers102(tmp_path, (2, 2, 4), classes=2)
    with tarfile.open(served / "102flowers.tgz", "w:gz", dereference=True) as archive:
        for path in sorted((tmp_path / "flowers102/jpg").iterdir()):
            (tmp_path / "copy.jpg").write_bytes(path.read_bytes())  # hard links are refused, and rightly so
            archive.add(tmp_path / "copy.jpg", f"jpg/{path.name}")
    for name in ("imagelabels.mat", "setid.mat"):
        (served / name).write_bytes((tmp_path / "flowers102" / name).read_bytes())
    home = tmp_path / "home"
    samples = fetch(small("flowers102", 8), home, mirror=url)
    assert isinstance(samples, ImageSamples)
    assert samples.paths[7] == home / "flowers102/jpg/image_00008.jpg"
    assert all(path.is_file() for path in samples.paths)
    left = {path.name for path in (home / "flowers102").iterdir()}
    assert left == {"jpg", "imagelabels.mat", "setid.mat"}


def test_fetch_of_an_archive_with_two_entries(mirror: tuple[str, Path], tmp_path: Path) -> None:
    """The owner's CUB archive holds attributes.txt beside its folder."""
    url, served = mirror
    tree = Tree(tmp_path / "CUB_200_2011")
    for k in (1, 2):
        tree.folder.joinpath(f"images/00{k}.B").mkdir(parents=True)
        tree.folder.joinpath(f"images/00{k}.B/a.jpg").write_bytes(tree.jpeg.read_bytes())
    tree.lines("classes.txt", ["1 001.B", "2 002.B"])
    tree.lines("images.txt", ["1 001.B/a.jpg", "2 002.B/a.jpg"])
    tree.lines("image_class_labels.txt", ["1 1", "2 2"])
    tree.lines("train_test_split.txt", ["1 1", "2 0"])
    tree.jpeg.unlink()
    with tarfile.open(served / "CUB_200_2011.tgz", "w:gz") as archive:
        archive.add(tree.folder, "CUB_200_2011")
        archive.add(tree.folder / "classes.txt", "attributes.txt")
    samples = fetch(small("cub200", 2), tmp_path / "home", mirror=url)
    assert all(path.is_file() for path in samples.paths)
    assert len(load_images("cub200", data_home=tmp_path / "home", subset=True).train_paths) == 1


def test_real_birds(data_home: Path) -> None:
    """The real first 50 classes of CUB: 1,500 / 1,389 images, accepted only when a subset is asked for."""
    if not (data_home / "CUB_200_2011_first50").is_dir():
        pytest.skip("CUB_200_2011_first50 is not in RESIDUUM_DATA")
    birds = load_images("cub200", data_home=data_home, subset=True)
    if birds.n_classes == 50:
        assert (len(birds.train_paths), len(birds.test_paths)) == (1500, 1389)
        assert birds.class_names[1] == "001.Black_footed_Albatross"
    arguments = ["verify", "cub200", "--data", str(data_home), "--json"]
    assert json.loads(CliRunner().invoke(command, [*arguments, "--subset"]).stdout)[0]["ok"]


def test_real_flowers(data_home: Path) -> None:
    if not status(DATASETS["flowers102"], data_home)["present"]:
        pytest.skip("flowers102 is not in RESIDUUM_DATA")
    flowers = load_images("flowers102", data_home=data_home)
    assert (len(flowers.train_paths), len(flowers.test_paths)) == (2040, 6149)
    assert (np.bincount(flowers.y_train)[1:] == 20).all()
    verify(DATASETS["flowers102"], data_home)
