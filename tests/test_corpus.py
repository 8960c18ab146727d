"""Files that a fuzzer or a person has found to break a parser: now each is read or refused in words."""

from pathlib import Path

import pytest
from parsers import PARSERS, examples, parse

CORPUS = Path(__file__).parent / "corpus"
FOUND = sorted(path for path in CORPUS.glob("*/*") if path.is_file())


@pytest.mark.parametrize("path", FOUND, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_found_files_are_read_or_refused(path, tmp_path):
    parse(path.parent.name, path.read_bytes(), tmp_path)


@pytest.mark.parametrize("name", PARSERS)
def test_the_examples_that_fuzzing_starts_from_are_good_files(name, tmp_path):
    PARSERS[name](examples(name)[0], tmp_path)


def test_every_corpus_folder_is_that_of_a_parser():
    assert {path.parent.name for path in FOUND} <= set(PARSERS)
