"""The samples that a command learns from or compares methods on: what its options name, with features."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from residuum.cli.input_output import extracting, reading_arguments, say_notes
from residuum.errors import DataNotFoundError, UsageError

if TYPE_CHECKING:
    from residuum.inputs import OwnData


def read_with_test(path: Path, options: dict[str, Any]) -> OwnData:
    """The samples at `path`, joined with those of --test as their held-out part; notes go to stderr.

    The options for reading and splitting, other than --test-size, are taken out of `options`.
    """
    from residuum.inputs import ExpectedColumns, read_data
    from residuum.inputs.splitting import join_train_and_test

    reading = reading_arguments(options)
    test, split, group = options.pop("test"), options.pop("split"), options.pop("groups")
    twice = "--test brings the held-out samples: leave --split and --test-size out."
    if test is not None and (split is not None or options["test_size"] is not None):
        raise UsageError(twice)
    if test is not None and not test.exists():
        raise DataNotFoundError(f"{test} does not exist.")
    data = read_data(path, split=split, group=group, **reading)
    say_notes(data)
    if test is None:
        return data
    if data.split is not None:
        raise UsageError(twice)
    expected = None
    if data.features is not None:
        expected = ExpectedColumns(data.columns, data.features.shape[1], data.label, data.texts)
    held_out = read_data(test, group=group, expected=expected, **reading)
    say_notes(held_out)
    return join_train_and_test(data, held_out)


def features_of_images(data: OwnData, options: dict[str, Any]) -> tuple[OwnData, Any]:
    """A folder of images with features as --with says, and what extracted them (None for pixels).

    An extractor learns from the training images where some are held out, else from all of them. `options` get
    the name of the features and the size of pixels where they were not given.
    """
    from residuum.features.extraction import fit_extractor
    from residuum.inputs.image_features import size_of_small_images, with_features, with_pixels
    from residuum.models.preparing import built_extractor

    read = training = data
    if data.split is not None and (data.split == "test").any():
        training = data.rows(data.split == "train")
    if options["extractor"] is None:
        small = size_of_small_images(training)
        options["extractor"] = "bow_sift" if small is None else "pixels"
        if small is not None:
            shape = options["image_shape"] = options["image_shape"] or small
            data = data.noted(
                f"most images are too small for bow_sift, so the features are {shape[0]}x{shape[1]} pixels; "
                "--with and --image-shape change that"
            )
    name, extractor = options["extractor"], None
    if name == "pixels":
        found = with_pixels(data, options["image_shape"])
    else:
        extractor = built_extractor(name, options["weights"], options["device"])
        fit_extractor(extractor, training.paths or ())
        with extracting(name) as progress:
            found = with_features(data, extractor, progress=progress)
    say_notes(found, before=read)
    return found, extractor


def prepared_samples(data: OwnData, options: dict[str, Any]) -> tuple[OwnData, tuple[tuple[str, Any], ...]]:
    """The data with features and a split into train and test, and the step that made the features."""
    import numpy as np

    from residuum.inputs.image_features import guess_image_shape
    from residuum.inputs.row_ids import without_row_ids
    from residuum.inputs.splitting import train_test
    from residuum.models.file import EXTRACTOR

    train, test = train_test(data, test_size=options["test_size"], seed=options["seed"])
    marks = np.full(len(data), "train", dtype="<U5")
    marks[test] = "test"
    read, (data, options["without"]) = data, without_row_ids(replace(data, split=marks), train)
    say_notes(data, before=read)
    if data.kind == "images":
        data, extractor = features_of_images(data, options)
        return data, () if extractor is None else ((EXTRACTOR, extractor),)
    if options["extractor"] not in (None, "pixels", "scattering"):
        raise UsageError(f"--with {options['extractor']} takes a folder of images. Got {data.source}.")
    shape, n_features = options["image_shape"] or guess_image_shape(data), np.asarray(data.features).shape[1]
    if shape is None or data.image_shape is not None:
        return data, ()
    if shape[0] * shape[1] != n_features:
        raise UsageError(
            f"--image-shape {shape[0]}x{shape[1]} is {shape[0] * shape[1]} pixels; {data.source} has "
            f"{n_features} features."
        )
    return replace(data, image_shape=shape), ()
