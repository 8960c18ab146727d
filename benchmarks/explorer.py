"""How long one redraw of ``residuum explore`` takes: every method, every slider moved to a value that is new.

    OMP_NUM_THREADS=1 python benchmarks/explorer.py            # the bundled digits
    RESIDUUM_DATA=folder python benchmarks/explorer.py mnist

Milliseconds of processor time from the question to the JSON of the answer, one query after the other, with
parameters that were never asked before. Set OMP_NUM_THREADS=1, since processor time adds up over threads.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
from stored import add_option, store

from residuum.estimators import SoftNRC
from residuum.explorer.opening import explore_digits, explore_estimator
from residuum.explorer.queries import HeldOut
from residuum.explorer.session import About

REPEATS = 7


def explore_mnist():
    """3,000 pictures of 28 x 28 pixels to code over, 300 of each digit."""
    data = np.load(Path(os.environ["RESIDUUM_DATA"]) / "mnist.npz")
    chosen = np.concatenate([np.flatnonzero(data["y_train"] == k)[:300] for k in range(10)])
    pictures, labels = data["x_train"][chosen], data["y_train"][chosen].astype(int)
    tests, truth = data["x_test"][:50], data["y_test"][:50].astype(int)
    model = SoftNRC().fit(pictures.reshape(len(pictures), -1).astype(float), labels)
    held_out = HeldOut(tests.reshape(50, -1).astype(float), truth, [str(i) for i in range(50)], tests)
    names = [str(i) for i in range(len(pictures))]
    about = About("MNIST", "pixels", shape=(28, 28))
    return explore_estimator(model, about, held_out, names=names, pictures=pictures)


def moved(slider, step):
    """A value of a slider, another one for every step; within the middle half of it."""
    part = 0.25 + 0.5 * ((0.37 * step) % 1)
    if slider["whole"]:
        return int(slider["low"] + part * (slider["high"] - slider["low"]))
    if slider["logarithmic"]:
        return slider["low"] * (slider["high"] / slider["low"]) ** part
    return slider["low"] + part * (slider["high"] - slider["low"])


def main() -> None:
    """Print one line for every slider."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", choices=["digits", "mnist"], default="digits")
    add_option(parser)
    args, kept = parser.parse_args(), []
    exploration = explore_mnist() if args.data == "mnist" else explore_digits()
    print(f"{exploration.coder.dictionary.n_atoms} atoms, {exploration.coder.dictionary.n_features} features")
    print(f"{'method':8} {'slider':12} {'median ms':>10} {'largest ms':>11}")
    for method in exploration.controls.described()["methods"]:
        exact = [None] if method["name"] == "NRC" else []
        for slider in [*method["sliders"], *exact]:
            times = []
            for step in range(REPEATS + 1):
                changes = {"solver": "exact"} if slider is None else {slider["name"]: moved(slider, step)}
                began = time.process_time()
                settings = exploration.controls.checked({"method": method["name"], "parameters": changes})
                json.dumps(exploration.explain(exploration.query(step), settings))
                times.append(1000 * (time.process_time() - began))
            name = "exact" if slider is None else slider["name"]
            # The first one of a method may load compiled code or build what all its settings share.
            median, largest = float(np.median(times[1:])), max(times[1:])
            print(f"{method['name']:8} {name:12} {median:10.1f} {largest:11.1f}", flush=True)
            kept.append(
                {"method": method["name"], "slider": name, "median ms": median, "largest ms": largest}
            )
    dictionary = exploration.coder.dictionary
    store(args.json, {"atoms": dictionary.n_atoms, "features": dictionary.n_features, "rows": kept})


if __name__ == "__main__":
    main()
