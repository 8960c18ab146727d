"""Numbers, pictures and pages: what all reports share."""

import base64
import io
import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from jinja2 import UndefinedError
from PIL import Image

from residuum import NRC
from residuum.paper.confusions import Confusion, confusions_page
from residuum.reports import numbers
from residuum.reports.page import TEMPLATES, render
from residuum.reports.thumbnails import data_uri, to_pixels

HOSTILE = '</title><script>alert(1)</script> & "quoted" \udcff\u202e\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (numbers.percent(0.9744, 0.0031), "97.4 ± 0.3"),
        (numbers.percent(1.0), "100.0"),
        (numbers.percent(None), ""),
        (numbers.one_decimal(math.nan), ""),
        (numbers.signed(-0.34), "−0.3"),
        (numbers.signed(math.nan), ""),
        ("; ".join(map(numbers.significant, (123.4, 12.34, 1.234, 0.1234))), "123; 12.3; 1.23; 0.123"),
        ("; ".join(map(numbers.four_digits, (123456, 0.123456, "inf", None))), "123456; 0.1235; inf; "),
        ("; ".join(map(numbers.scientific, (4.32e-5, 0.0, None))), "4.3e-05; 0; "),
    ],
)
def test_numbers(text, expected):
    assert text == expected


def test_png_keeps_every_pixel():
    rng = np.random.default_rng(0)
    for shape in [(8, 8), (5, 9, 3), (1, 1)]:
        pixels = rng.integers(0, 256, shape).astype(np.uint8)
        raw = base64.b64decode(data_uri(pixels).removeprefix("data:image/png;base64,"))
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(raw))), pixels)
    large = np.kron(rng.integers(0, 256, (50, 40)), np.ones((4, 4))).astype(np.uint8)
    raw = base64.b64decode(data_uri(large).split(",")[1])
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(raw))), large[::2, ::2])


def test_to_pixels_cuts_off():
    assert to_pixels([-1, 0, 8, 16, 20, 4], (2, 3), low=0, high=16).tolist() == [[0, 0, 128], [255, 255, 64]]
    assert to_pixels([3.0, 3.0], (1, 2), low=3, high=3).tolist() == [[0, 0]]


def test_jpeg_makes_photographs_small():
    y, x = np.mgrid[:120, :160]
    noise = np.random.default_rng(0).normal(scale=4, size=(120, 160, 3))
    photo = np.clip(np.dstack([x, y, 255 - x]) + noise, 0, 255).astype(np.uint8)
    texts = {kind: data_uri(photo, format=kind) for kind in ("PNG", "JPEG")}
    assert len(texts["JPEG"]) < len(texts["PNG"]) / 4
    raw = base64.b64decode(texts["JPEG"].removeprefix("data:image/jpeg;base64,"))
    assert np.abs(np.asarray(Image.open(io.BytesIO(raw))).astype(int) - photo).mean() < 8


def test_a_value_that_a_template_needs_and_does_not_get_is_an_error():
    with pytest.raises(UndefinedError, match="'verdict' is undefined"):
        render("paper.html", title="Results", sections=[])


def test_templates_trust_no_text():
    for template in TEMPLATES.iterdir():
        text = template.read_text(encoding="utf-8")
        assert not re.search(r"\|\s*safe\b|autoescape|Markup", text), template


def test_confusions_show_pictures_and_escape_names(tmp_path):
    paths = [tmp_path / f"<b>{i}.png" for i in range(6)]
    for path in paths:
        Image.new("RGB", (90, 60), "teal").save(path)
    samples = SimpleNamespace(paths=paths, class_names=["001.Black_bird", HOSTILE])
    why = NRC().fit(np.eye(5), [0, 0, 0, 1, 1]).explain([0.0, 0.1, 0.2, 0.9, 0.3])
    case = Confusion(5, 0, why, tuple(atom.sample for atom in why.atoms))
    page = confusions_page("Title", HOSTILE, [case], [((0, 1), 3)], samples)
    page.encode("utf-8")  # raises when a lone surrogate is left
    assert page.count('<img src="data:image/jpeg;base64,') == 1 + len(why.atoms)
    assert "Black bird taken for" in page
    assert '<span class="right">Black bird</span>' in page
    assert "&lt;script&gt;alert(1)" in page
    for forbidden in ("<script", "<b>", "\u202e", "http:"):
        assert forbidden not in page
    samples.class_names.append("003.Rare_bird")  # the model holds no image of it
    unknown = confusions_page("Title", "", [replace(case, truth=2)], [((2, 1), 1)], samples)
    assert "Rare bird" in unknown
    assert "rank" not in unknown
