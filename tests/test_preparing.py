"""Features by the kind of data: what is chosen for tables, pixels and embeddings, and what overrules it."""

import numpy as np
import pytest

from residuum import SoftNRC
from residuum.errors import UsageError
from residuum.features import TableEncoder
from residuum.inputs import OwnData
from residuum.models.preparing import (
    SHARPNESSES,
    built_extractor,
    check_feature_options,
    chosen_features,
    encoding_notes,
    kind_of,
)
from residuum.models.recipe import Features, Recipe, fit_recipe, parse_settings

DEFAULTS = {"scale": None, "kernel": None, "sharpness": None, "pca": None, "embeddings": False}


def data(n_features=5, **known):
    X = np.random.default_rng(0).standard_normal((10, n_features))
    return OwnData("x", known.pop("kind", "table"), X, np.arange(10) % 2, np.arange(10), **known)


TABLE = data(columns=tuple("abcde"))
WIDE_TABLE = data(200, columns=tuple(f"gene{i}" for i in range(200)))
EMBEDDINGS = data(200, kind="array")
PIXELS = data(64, kind="array", image_shape=(8, 8))


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (TABLE, "a table"),
        (WIDE_TABLE, "a table"),
        (data(4, kind="array"), "a table"),
        (EMBEDDINGS, "embeddings"),
        (data(200), "embeddings"),
        (PIXELS, "pixels"),
        (data(64, kind="images"), "image features"),
    ],
)
def test_kinds(found, kind):
    assert kind_of(found) == kind
    assert len(chosen_features(found, DEFAULTS, select="fixed")) == 1


@pytest.mark.parametrize(
    ("found", "asked", "expected"),
    [
        (TABLE, {}, Features("standard", None, "rbf")),
        (TABLE, {"kernel": "none"}, Features("standard")),
        (TABLE, {"scale": "minmax", "kernel": "cosine"}, Features("minmax", None, "cosine")),
        (TABLE, {"scale": "none"}, Features(None, None, "rbf")),
        (TABLE, {"embeddings": True}, Features()),
        (TABLE, {"pca": 3, "sharpness": 1.5}, Features("standard", 3, "rbf", 1.5)),
        (EMBEDDINGS, {}, Features()),
        (EMBEDDINGS, {"kernel": "rbf"}, Features(None, None, "rbf")),
        (PIXELS, {}, Features()),
        (PIXELS, {"scale": "standard"}, Features("standard")),
    ],
)
def test_fixed_features(found, asked, expected):
    assert chosen_features(found, {**DEFAULTS, **asked}, select="fixed") == (expected,)


def test_candidates_of_a_search():
    kernels = tuple(Features("standard", None, "rbf", s) for s in SHARPNESSES)
    linear = (Features("minmax"), Features("standard"))
    assert chosen_features(TABLE, DEFAULTS, select="cv") == (*linear, *kernels)
    assert chosen_features(TABLE, {**DEFAULTS, "kernel": "rbf"}, select="cv") == kernels
    assert chosen_features(TABLE, {**DEFAULTS, "kernel": "none"}, select="cv") == linear
    narrow = {**DEFAULTS, "scale": "unit", "kernel": "none"}
    assert chosen_features(TABLE, narrow, select="cv") == (Features("unit"),)
    assert chosen_features(EMBEDDINGS, DEFAULTS, select="cv") == (Features(),)


@pytest.mark.parametrize("asked", [{"kernel": "none"}, {"kernel": "cosine"}, {"embeddings": True}])
def test_a_sharpness_without_a_kernel_is_refused(asked):
    with pytest.raises(UsageError, match="--sharpness is that of --kernel"):
        chosen_features(TABLE, {**DEFAULTS, **asked, "sharpness": 0.5}, select="fixed")


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_a_sharpness_out_of_range_is_refused(value):
    with pytest.raises(UsageError, match="--sharpness must be greater than 0"):
        check_feature_options({**DEFAULTS, "extractor": None, "sharpness": value})


def test_a_column_without_any_value_is_told_of():
    encoder = TableEncoder().fit(np.array([[1.0, None, "x"], [2.0, None, "x"]], dtype=object))
    notes = ["columns left out, because they hold no value: 'b'", "text columns by category: 'c' (1)"]
    assert encoding_notes(encoder, ["a", "b", "c"]) == notes


def test_extractors_by_name():
    with pytest.raises(UsageError, match=r"--with must be one of pixels, .*vgg19.* for a folder\. Got 'scat"):
        built_extractor("scattering", None, None)
    with pytest.raises(UsageError, match="--weights and --device go with a network; bow_sift has none"):
        built_extractor("bow_sift", None, "cpu")
    for weights, device in ((None, None), ("mine.pth", "cuda")):
        made = built_extractor("vgg19", weights, device).get_params()
        assert (made["network"], made["weights"], made["device"]) == ("vgg19", weights, device or "cpu")


def test_words_and_lists_of_settings():
    told = parse_settings("SoftNRC", "fixed", ["n_jobs=None", "l2=1e-3", "neg_weight=inf"])
    assert SoftNRC(**told).get_params() == SoftNRC(n_jobs=None, l2=1e-3, neg_weight=np.inf).get_params()
    assert parse_settings("NRC", "cv", ["rhos=[1, 0.5]", "exact=TRUE"]) == {"rhos": [1, 0.5], "exact": True}


def test_scattering_needs_the_shape_of_the_pictures():
    recipe = Recipe("NSC", features=(Features(),), scattering=True)
    for shape in (None, (4, 4, 4)):
        with pytest.raises(UsageError, match="--with scattering needs grey pictures: say --image-shape"):
            fit_recipe(recipe, np.eye(64)[:4], [0, 0, 1, 1], image_shape=shape)


def test_many_numbers_are_coded_in_float32():
    few = np.random.default_rng(0).random((9, 2))
    recipe = Recipe("NSC", features=(Features(),))
    for repeats, dtype in ((1, np.float64), (2**19, np.float32)):
        fitted = fit_recipe(recipe, np.tile(few, repeats), np.arange(9) % 2).estimator
        assert fitted.dictionary_.atoms.dtype == dtype
