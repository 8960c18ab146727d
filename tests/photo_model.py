"""A model of photographs by visual words, small enough to be fitted by every test that needs one."""

import pytest
from sklearn.pipeline import Pipeline
from ugly_images import scene

from residuum import CRC

WITH = {"kind": "images", "features": {"with": "bow_sift"}}  # what `residuum fit` notes of such a model


def photographs():
    """Six photographs, their labels and the pipeline that was fitted to them; skips without OpenCV."""
    pytest.importorskip("cv2", reason="needs the extra 'images': opencv-python-headless")
    from residuum.features import BowSift

    shots, labels = [scene(48, 56, seed) for seed in range(6)], ["left", "right"] * 3
    return shots, labels, Pipeline([("images", BowSift(n_words=4)), ("crc", CRC())]).fit(shots, labels)
