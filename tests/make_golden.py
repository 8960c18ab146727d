"""Write golden model files of the present format version: ``python tests/make_golden.py``."""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from residuum import NRC, EigenfacePCA, SoftNRC, save_model
from residuum.models.file import FORMAT_VERSION

FOLDER = Path(__file__).parent / "golden"


def main() -> None:
    images, digits = load_digits(return_X_y=True)
    images = images.astype(np.float32)
    X, y, queries = images[:40], digits[:40].astype(str), images[100:110]
    for name, classifier in {"nrc": NRC(), "softnrc": SoftNRC(neg_weight=np.inf, l2=0.1)}.items():
        model = make_pipeline(Normalizer(), EigenfacePCA(6), classifier).fit(X, y)
        path = FOLDER / f"format-{FORMAT_VERSION}-{name}.residuum"
        if path.exists():
            print(f"{path.name} exists and stays as it is.")
            continue
        save_model(model, path, about={"input": {"kind": "array"}})
        residuals = model[-1].residuals(model[:-1].transform(queries))
        np.savez_compressed(
            path.with_suffix(".npz"), queries=queries, labels=model.predict(queries), residuals=residuals
        )


if __name__ == "__main__":
    main()
