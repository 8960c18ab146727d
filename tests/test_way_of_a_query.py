"""From ``residuum predict`` to the argmin: the modules a reader meets, and how often a query is coded."""

import csv
import sys
import threading

import pytest
from sklearn.datasets import load_wine

from residuum import CRC, NRC, SoftNRC
from residuum.cli.main import main

MOST_MODULES = 18


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Wine in two parts."""
    folder = tmp_path_factory.mktemp("wine")
    wine = load_wine()
    rows = [[*map(repr, x.tolist()), k] for x, k in zip(wine.data, wine.target_names[wine.target])]
    for name, part in (("train", rows[::2]), ("new", rows[1::2])):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([[*wine.feature_names, "cultivar"], *part])
    return folder


def run(*arguments):
    assert main([str(argument) for argument in arguments]) == 0


class Way:
    """The modules of residuum whose functions run between the start of a command and the first argmin."""

    def __init__(self, command):
        self.command, self.modules = command, {}
        self.started = self.arrived = False

    def __enter__(self):
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *_error):
        sys.setprofile(None)
        threading.setprofile(None)

    def __call__(self, frame, event, _arg):
        place = module, function = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        self.started = self.started or place == self.command
        if event != "call" or not self.started or self.arrived:
            return
        if module.split(".")[0] == "residuum" and function != "<module>":
            self.modules.setdefault(module, function)
            self.arrived = place == ("residuum.estimators.answers", "winners")


@pytest.mark.parametrize("method", [NRC, CRC, SoftNRC])
def test_a_reader_meets_few_modules_between_predict_and_the_argmin(tables, tmp_path, method):
    model, out = tmp_path / "wine.residuum", tmp_path / "answers.csv"
    run("fit", tables / "train.csv", "--method", method.__name__, "--kernel", "none", "--out", model)
    run("predict", model, tables / "new.csv", "--out", out)  # compiles what is not compiled yet
    with Way(("residuum.cli.predict", "predict")) as way:
        run("predict", model, tables / "new.csv", "--out", out)
    print(f"{len(way.modules)} modules:")
    for module, function in way.modules.items():
        print(f"  {module}: {function}")
    assert way.arrived
    expected = {"cli.predict", "models.file", "inputs.text", "estimators.base", "rules", "estimators.answers"}
    assert {f"residuum.{name}" for name in expected} <= set(way.modules)
    assert len(way.modules) <= MOST_MODULES


class CountedSolver:
    """A solver that notes how many queries it is given."""

    def __init__(self, solver, counts):
        self._solver, self._counts = solver, counts
        if hasattr(solver, "class_parts"):
            self.class_parts = lambda queries: self._counted("class_parts", queries)

    def __getattr__(self, name):
        return getattr(self._solver, name)

    def solve(self, queries, *, certify=True):
        return self._counted("solve", queries, certify=certify)

    def _counted(self, name, queries, **options):
        self._counts.append(len(queries))
        return getattr(self._solver, name)(queries, **options)


@pytest.fixture(params=[NRC, CRC, SoftNRC])
def counted(request, monkeypatch):
    """A method, and the sizes of the blocks of queries that its solvers are given."""
    counts, make = [], request.param._make_solver
    monkeypatch.setattr(request.param, "_make_solver", lambda self, d: CountedSolver(make(self, d), counts))
    return request.param.__name__, counts


@pytest.mark.parametrize("by", ["margin", "concentration"])
def test_every_query_is_coded_once(tables, tmp_path, counted, by):
    method, counts = counted
    model, new = tmp_path / "wine.residuum", tables / "new.csv"
    rejecting = ("--method", method, "--reject-threshold", "0.1", "--reject-by", by)
    run("fit", tables / "train.csv", "--test", new, *rejecting, "--out", model)
    assert sum(counts) == 89  # the held-out samples; fitting codes nothing
    run("fit", tables / "train.csv", "--probability", *rejecting, "--out", model)
    for command in ("predict", "evaluate"):
        counts.clear()
        run(command, model, new)
        assert sum(counts) == 89
