"""Dictionaries and queries of every shape that has caused trouble."""

from __future__ import annotations

import os
import signal
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from residuum.dictionary import Dictionary, unit_rows


def pytest_configure():
    """Let Ctrl-C work in processes that tests start: shells ignore it in what they run in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Examples in docstrings that need an extra skip without it."""
    if find_spec("cv2") is None:
        for item in items:
            if item.name == "residuum.features.bow_sift.BowSift":
                item.add_marker(pytest.mark.skip(reason="needs the extra 'images': opencv-python-headless"))


@dataclass
class Case:
    """Training samples with labels 0..2 and queries, and the same as unit-norm arrays."""

    samples: np.ndarray
    labels: np.ndarray
    queries: np.ndarray

    @property
    def dictionary(self) -> Dictionary:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Dictionary.from_samples(self.samples, self.labels, 3)

    @property
    def unit_queries(self) -> np.ndarray:
        return unit_rows(self.queries)[0]

    @property
    def blocks(self) -> list[np.ndarray]:
        """The atoms of each class as columns, as the paper writes them."""
        dictionary = self.dictionary
        return [dictionary.atoms[block].T for block in dictionary.blocks]


def make_case(kind: str, seed: int = 0) -> Case:
    rng = np.random.default_rng(seed)
    n_samples, n_features = {"tall": (12, 30), "wide": (40, 9)}.get(kind, (18, 12))
    samples = rng.normal(size=(n_samples, n_features)) + 0.5
    labels = rng.permutation(np.arange(n_samples) % 3)
    queries = rng.normal(size=(7, n_features)) + 0.5
    if kind == "rank_deficient":
        samples = rng.normal(size=(n_samples, 4)) @ rng.normal(size=(4, n_features))
    if kind == "duplicates":
        samples[6:] = samples[:12]  # within and across classes
    if kind == "zero_query":
        queries[3] = 0
    if kind == "badly_scaled":
        samples *= 10.0 ** rng.uniform(-200, 200, size=(n_samples, 1))
        queries *= 10.0 ** rng.uniform(-200, 200, size=(7, 1))
    return Case(samples, labels, queries)


KINDS = ["tall", "wide", "rank_deficient", "duplicates", "zero_query", "badly_scaled"]


@pytest.fixture(params=KINDS)
def case(request) -> Case:
    return make_case(request.param)


@pytest.fixture(scope="session")
def data_home() -> Path:
    """Folder with the real data sets, or a skip that says how to get them."""
    home = os.environ.get("RESIDUUM_DATA")
    if not home or not Path(home).is_dir():
        pytest.skip("real data: set RESIDUUM_DATA to a folder with usps.npz, mnist.npz, ...")
    return Path(home)
