"""Every kind of file: read by the documented rule, or refused with its name and a reason."""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from ugly_images import png_header, scene, write_ugly

from residuum.errors import DataFormatError, UsageError
from residuum.experiments.compared_data import Data
from residuum.features.image_files import ImageError, as_images, image_header, read_image, resize
from residuum.inputs import OwnData
from residuum.inputs.image_features import thumbnails


@pytest.fixture(scope="module")
def ugly(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str | None]]:
    folder = tmp_path_factory.mktemp("ugly")
    return folder, write_ugly(folder)


def close(a: np.ndarray, b: np.ndarray, mean: float) -> bool:
    return a.shape == b.shape and np.abs(a.astype(int) - b).mean() < mean


def test_every_file_is_read_or_refused_with_its_reason(ugly: tuple[Path, dict[str, str | None]]) -> None:
    folder, expected = ugly
    for name, reason in expected.items():
        for mode, n_dim in (("rgb", 3), ("grey", 2)):
            if reason is None:
                pixels = read_image(folder / name, mode=mode)
                assert pixels.dtype == np.uint8
                assert pixels.ndim == n_dim
            else:
                with pytest.raises(ImageError, match=reason) as caught:
                    read_image(folder / name, mode=mode)
                assert str(folder / name) in str(caught.value)
                assert "\n" not in caught.value.reason
                assert isinstance(caught.value, DataFormatError)
                assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("name", "mean"),
    [("plain.jpg", 4), ("jpeg called.png", 8), ("animated.gif", 12), ("palette.gif", 30), ("cmyk.jpg", 8)],
)
def test_colours_survive(ugly: tuple[Path, dict[str, str | None]], name: str, mean: float) -> None:
    assert close(read_image(ugly[0] / name), scene(), mean)


def test_rules_in_numbers(ugly: tuple[Path, dict[str, str | None]]) -> None:
    folder = ugly[0]
    np.testing.assert_array_equal(read_image(folder / "sixteen.png", mode="grey"), scene()[:, :, 0])
    assert (read_image(folder / "transparent.png") == 255).all()
    grey = read_image(folder / "grey.jpg")
    np.testing.assert_array_equal(grey[:, :, 0], grey[:, :, 2])
    # Orientation 6: the picture is stored lying and shown turned clockwise.
    assert close(read_image(folder / "turned.jpg"), np.rot90(scene(), -1), 4)
    assert close(read_image(folder / "bad exif.jpg"), scene(), 4)


def test_huge_header_costs_no_memory(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png_header(12_000, 7_000))
    tracemalloc.start()
    try:
        with pytest.raises(ImageError, match="too large: 12000 x 7000"):
            read_image(tmp_path / "a.png")
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    assert image_header(tmp_path / "a.png") == (12_000, 7_000)


@pytest.mark.parametrize("limit", [{"max_side": 200}, {"max_short": 150}])
def test_shrinking(tmp_path: Path, limit: dict[str, int]) -> None:
    picture = Image.fromarray(scene(900, 1200))
    picture.save(tmp_path / "a.jpg", quality=95)
    picture.save(tmp_path / "a.png")
    from_jpeg, from_png = (read_image(tmp_path / name, **limit) for name in ("a.jpg", "a.png"))
    assert from_jpeg.shape == from_png.shape == (150, 200, 3)
    assert close(from_jpeg, from_png, 8)
    np.testing.assert_array_equal(read_image(from_png, **limit), from_png)
    np.testing.assert_array_equal(read_image(scene(30, 40), **limit), scene(30, 40))
    exif = Image.Exif()
    exif[0x0112] = 6
    picture.save(tmp_path / "turned.jpg", exif=exif, quality=95)
    assert close(read_image(tmp_path / "turned.jpg", **limit), np.rot90(from_jpeg, -1), 4)


def test_arrays() -> None:
    pixels = scene()
    np.testing.assert_array_equal(read_image(pixels), pixels)
    np.testing.assert_array_equal(read_image(pixels / 255.0), pixels)
    assert read_image(pixels[:, :, 0]).shape == (64, 80, 3)
    np.testing.assert_array_equal(read_image(pixels[:, :, :1], mode="grey"), pixels[:, :, 0])
    for bad in (pixels.astype(int), pixels[:, :, :2], pixels[None], pixels * 2.0, np.full((20, 20), np.nan)):
        with pytest.raises(UsageError, match="An image array"):
            read_image(bad)
    with pytest.raises(UsageError, match="path or an array"):
        read_image(3)  # type: ignore[arg-type]
    assert resize(pixels, (10, 20)).shape == (10, 20, 3)


def test_missing_folder_and_null_byte(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="No such file"):
        read_image(tmp_path / "absent.jpg")
    with pytest.raises(ImageError, match="not a regular file"):
        read_image(tmp_path)
    with pytest.raises(ImageError, match="null"):
        read_image("a\0b.jpg")
    error = pickle.loads(pickle.dumps(ImageError("a.jpg", "empty file")))
    assert (error.path, error.reason) == ("a.jpg", "empty file")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_bytes_never_crash(ugly: tuple[Path, dict[str, str | None]], tmp_path: Path, data) -> None:
    readable = sorted(name for name, reason in ugly[1].items() if reason is None)
    content = bytearray((ugly[0] / data.draw(st.sampled_from(readable))).read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "a.jpg").write_bytes(bytes(content[: data.draw(st.integers(0, len(content)))]))
    with contextlib.suppress(ImageError):  # anything else is a failure
        assert read_image(tmp_path / "a.jpg").ndim == 3


def test_importing_the_features_loads_nothing_heavy() -> None:
    code = (
        "import sys, residuum.features, residuum.cli.features;"
        "print([m for m in ('PIL', 'cv2', 'torch', 'matplotlib', 'numba') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_thumbnails_have_a_grey_margin_and_are_as_large_as_the_model_can_afford(tmp_path: Path) -> None:
    Image.new("RGB", (300, 100), "white").save(tmp_path / "wide.png")
    paths = (tmp_path / "wide.png",)
    data = OwnData("birds", "images", None, np.array(["a"]), np.array(["wide.png"]), paths=paths)
    found = thumbnails(data)
    assert found is not None
    assert found.shape == (1, 96, 96, 3)
    assert (found[0, [0, -1]] == 128).all()  # white would glare on a dark page
    assert (found[0, 48] == 255).all()


def test_pictures_of_rows_are_kept_up_to_a_size() -> None:
    for side, kept in ((128, True), (129, False)):
        rows = np.tile(np.arange(side, dtype=np.uint8), (2, 1))
        data = OwnData("rows", "array", rows, np.array([0, 1]), np.arange(2), image_shape=(side, 1))
        assert (thumbnails(data) is not None) == kept


def test_a_compared_image_file_is_shown_small(tmp_path: Path) -> None:
    Image.new("RGB", (600, 300), "teal").save(tmp_path / "wide.png")
    picture = Data("birds", np.eye(1), np.zeros(1), paths=(tmp_path / "wide.png",)).picture(0)
    assert picture is not None
    assert picture.shape[0] * 2 == picture.shape[1] < 600
    assert Data("numbers", np.eye(1), np.zeros(1)).picture(0) is None


def test_a_column_of_paths_is_a_list_of_paths() -> None:
    pd = pytest.importorskip("pandas")
    assert list(as_images(pd.Series(["a.jpg", "b.jpg"]), "BowSift")) == ["a.jpg", "b.jpg"]
