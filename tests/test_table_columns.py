"""Columns as they are: text and gaps become features, row numbers are left out, no test row is touched."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import polars
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from residuum import NRC, load_model, save_model
from residuum.cli.main import main
from residuum.errors import DataFormatError, ModelFileError, ResiduumError, UsageError
from residuum.features import TableEncoder
from residuum.inputs import ExpectedColumns, TableFormat, read_blocks, read_data
from residuum.inputs.row_ids import without_row_ids
from residuum.models.file import open_model
from residuum.system.progress import progress_bars, tell_progress

AUTO = TableFormat(encode=True, missing="impute")
HEADER = ["PassengerId", "Survived", "Pclass", "Name", "Sex", "Age", "Ticket", "Fare", "Cabin", "Embarked"]


def passengers(n=200, seed=0):
    """Rows like those of the Titanic: numbers, text, ids, and values missing in four spellings."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        sex = rng.choice(["male", "female"])
        survived = int(rng.random() < (0.9 if sex == "female" else 0.1))
        age = rng.choice(["", "NA", f"{rng.normal(30, 10):.1f}", f"{rng.normal(30, 10):.1f}"])
        ticket = rng.choice(
            [f"A/5 {rng.integers(100, 300)}", f"PC {rng.integers(100, 300)}", str(rng.integers(10**5, 10**6))]
        )
        cabin, port = rng.choice(["", "", "?", f"C{i}"]), rng.choice(["S", "S", "C", "Q", "-"])
        fare = f"{rng.exponential(30):.4f}"
        rows.append(
            [i + 1, survived, rng.integers(1, 4), f"Smith, Mr. {i}", sex, age, ticket, fare, cabin, port]
        )
    return rows


def write(path, rows, header=HEADER):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


@pytest.fixture(scope="module")
def titanic(tmp_path_factory):
    return write(tmp_path_factory.mktemp("ship") / "titanic.csv", passengers())


@pytest.fixture
def run(capsys):
    def run(*words):
        code = main([str(word) for word in words])
        out, told = capsys.readouterr()
        return code, out, told

    return run


# The encoder.

SCRIPT = """
import warnings
from sklearn.utils.estimator_checks import check_estimator
from residuum.features import TableEncoder
warnings.simplefilter("ignore")
results = check_estimator(TableEncoder(), on_fail=None)
failed = [(r["check_name"], r["exception"]) for r in results if r["status"] != "passed"]
assert len(results) >= 40 and not failed, failed
"""


def test_all_scikit_learn_checks_pass():
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


MIXED = {
    "age": [20.0, None, 40.0, 30.0, 30.0, 35.0],
    "sex": ["m", "f", None, "f", "m", "f"],
    "ticket": ["a", "b", "c", "d", "e", "f"],
    "empty": [None] * 6,
    "town": ["x", "x", "y", "y", "p", "q"],
}


@pytest.mark.parametrize("table", [pd.DataFrame, polars.DataFrame])
def test_a_table_becomes_features(table):
    encoder = TableEncoder().fit(table(MIXED))
    names = ["age", "age=(missing)", "sex=f", "sex=m", "sex=(missing)", "town=x", "town=y", "town=(other)"]
    assert encoder.get_feature_names_out().tolist() == names
    new = {"age": [None], "sex": ["diverse"], "ticket": ["a"], "empty": ["now"], "town": ["unseen"]}
    assert encoder.transform(table(new)).tolist() == [[30, 1, 0, 0, 0, 0, 0, 1]]
    filled = {"age": [1], "sex": [None], "ticket": [None], "empty": [2], "town": ["y"]}
    assert encoder.transform(table(filled)).tolist() == [[1, 0, 1, 0, 1, 0, 1, 0]]
    shown = TableEncoder().set_output(transform="pandas").fit_transform(pd.DataFrame(MIXED))
    assert shown.columns.tolist() == names


def test_numbers_without_gaps_are_given_back_as_they_are():
    X = np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)
    encoder = TableEncoder().fit(X)
    assert np.shares_memory(encoder.transform(X), X)
    X[0, 1] = np.nan  # none was missing in training: the median, and no mark
    found = encoder.transform(X)
    assert found.shape == (20, 3)
    assert found.dtype == np.float32
    assert found[0, 1] == np.float32(encoder.medians_[1])


def test_rare_categories_are_joined_by_their_share():
    texts = np.array([["a"]] * 60 + [["b"]] * 30 + [["c"]] * 6 + [["d"]] * 4, dtype=object)
    assert TableEncoder(min_share=0).fit(texts).categories_ == [["a", "b", "c"]]
    joined = TableEncoder(min_share=0.08).fit(texts)
    assert joined.categories_ == [["a", "b"]]
    assert joined.transform([["c"], ["d"], ["new"]]).tolist() == [[0, 0, 1]] * 3
    assert TableEncoder(min_share=0.2).fit(texts).transform([["c"]]).tolist() == [[0, 0]]  # too few to join


def test_missing_values_of_every_kind():
    X = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": ["x", pd.NA, "x"]})
    assert TableEncoder().fit_transform(X).tolist() == [[1, 0, 1, 0], [2, 1, 1, 1], [3, 0, 1, 0]]


@pytest.mark.parametrize(
    ("X", "told"),
    [
        ([[1.0, "a"], ["b", "a"]], "column 0 holds text and numbers"),
        (
            pd.DataFrame({"t": pd.to_datetime(["2020-01-01", "2020-01-02"]), "b": ["x", "y"]}),
            "Turn times into",
        ),
        ([[np.inf, "a"], [1.0, "a"]], "column 0 holds infinity"),
        ([["a"], ["b"]], "none of the 1 columns"),
    ],
)
def test_what_cannot_be_encoded_is_named(X, told):
    with pytest.raises((ValueError, TypeError), match=told):
        TableEncoder().fit(X if isinstance(X, pd.DataFrame) else np.array(X, dtype=object))


def test_infinity_among_numbers_is_named():
    with pytest.raises(ValueError, match=r"'X' parameter of TableEncoder: column 1 holds infinity"):
        TableEncoder().fit(np.array([[1.0, 2.0], [3.0, np.inf]]))


def test_a_category_may_be_called_like_a_mark():
    encoder = TableEncoder().fit(np.array([["(missing)"], ["(missing)"], [None]], dtype=object))
    assert encoder.get_feature_names_out(["a"]).tolist() == ["a=(missing)", "a=(missing)'"]


def test_a_column_keeps_its_kind():
    encoder = TableEncoder().fit(pd.DataFrame({"a": [1, 2, 3], "b": ["x", "x", "y"]}))
    with pytest.raises(ValueError, match=r"column 'a' holds text \('z'\), and in training it was numbers"):
        encoder.transform(pd.DataFrame({"a": ["z"], "b": ["x"]}))
    with pytest.raises(ValueError, match="column 'b' holds numbers"):
        encoder.transform(pd.DataFrame({"a": [1], "b": [2]}))


def test_the_encoder_is_saved_with_the_model(tmp_path):
    table = pd.DataFrame({name: MIXED[name] * 3 for name in ("age", "sex", "town")})
    labels = ["u", "v", "v", "v", "u", "v"] * 3
    model = make_pipeline(TableEncoder(), StandardScaler(), NRC()).fit(table, labels)
    again = load_model(save_model(model, tmp_path / "m.residuum"))
    np.testing.assert_array_equal(again[:-1].transform(table), model[:-1].transform(table))
    assert again.predict(table).tolist() == model.predict(table).tolist()
    with zipfile.ZipFile(tmp_path / "m.residuum") as archive:
        described = json.loads(archive.read("model.json"))
    assert described["steps"][0]["fitted"]["categories_"][1] == ["f", "m"]


def test_a_damaged_encoder_is_refused(tmp_path):
    from parsers import sealed

    model = make_pipeline(TableEncoder(), NRC()).fit(np.array([[1.0], [2.0], [np.nan]]), ["a", "b", "b"])
    path = save_model(model, tmp_path / "m.residuum")
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for wrong in ([["a", "a"]], [[1]], [[], []], "a"):
        described = json.loads(members["model.json"])
        described["steps"][0]["fitted"]["categories_"] = wrong
        path.write_bytes(sealed({**members, "model.json": json.dumps(described).encode()}))
        with pytest.raises(ModelFileError, match="categories_ must be lists of different texts"):
            open_model(path)


# Reading.


def test_text_and_gaps_are_read_as_they_are(titanic):
    data = read_data(titanic, label="Survived", text=AUTO)
    assert data.columns == ("PassengerId", "Pclass", "Sex", "Age", "Ticket", "Fare", "Cabin", "Embarked")
    assert data.texts == (2, 4, 6, 7)
    assert data.names[3] == "Smith, Mr. 3"
    rows = list(csv.reader(titanic.open()))[1:]
    ages = [None if row[5] in ("", "NA") else float(row[5]) for row in rows]
    assert data.features[:, 3].tolist() == ages
    assert data.features[:, 7].tolist() == [None if row[9] == "-" else row[9] for row in rows]


DATES = ["2021-03-04", "2021-03-04 12:30:00", "04.03.2021", "3/4/21", "4 Mar 2021", "March 4, 2021", "12:30"]


@pytest.mark.parametrize("date", DATES)
@pytest.mark.parametrize("encode", [False, True])
def test_dates_are_named_with_what_to_do(tmp_path, date, encode):
    path = write(tmp_path / "d.csv", [[1, date, "x"], [2, date, "y"]], ["a", "when", "label"])
    with pytest.raises(DataFormatError, match=r"column 2 \('when'\) holds a date.*days since.*--drop when"):
        read_data(path, text=TableFormat(encode=encode))
    assert read_data(path, drop=["when"]).features.shape == (2, 1)


@pytest.mark.parametrize("text", ["A-12/3", "12-34", "1.5 mg", "May", "10:1:1 mix", "3/4"])
def test_what_only_looks_like_a_date_is_text(tmp_path, text):
    path = write(tmp_path / "d.csv", [[1, text, "x"], [2, text, "y"]], ["a", "what", "label"])
    assert read_data(path, text=AUTO).texts == (1,)


def test_text_without_encoding_gets_one_error(titanic):
    with pytest.raises(
        DataFormatError, match=r"column 5 \('Sex'\) \(and 3 more .*male'.*--encode auto.*--drop Sex"
    ):
        read_data(titanic, label="Survived")


def test_text_that_begins_late_is_text(tmp_path):
    rows = [[i, "", "x" if i % 2 else "y"] for i in range(600)] + [[600, "boat", "x"], [601, "NA", "y"]]
    data = read_data(write(tmp_path / "d.csv", rows, ["a", "b", "label"]), text=AUTO)
    assert data.texts == (1,)
    assert data.features[-3:, 1].tolist() == [None, "boat", None]
    rows[5][1] = "7"  # a number above it: then the text is a mistake
    with pytest.raises(DataFormatError, match=r"line 602, column 2 \('b'\): 'boat' is not a number"):
        read_data(write(tmp_path / "d.csv", rows, ["a", "b", "label"]), text=AUTO)


def test_numbers_can_be_read_as_text(tmp_path):
    rows = [[1, "01", "x"], [2, "7", "y"], [3, "01", "x"]]
    path = write(tmp_path / "d.csv", rows, ["a", "code", "label"])
    data = read_data(path, text=TableFormat(encode=True, as_text=("code",)))
    assert data.features[:, 1].tolist() == ["01", "7", "01"]


def workbook(path, sheets):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_workbooks(tmp_path):
    rows = [["a", "b", "kind"], [1, 2.5, "x"], [None, None, None], [3, None, "y"], [5, True, "x"]]
    path = workbook(tmp_path / "t.xlsx", {"data": rows, "notes": [["hello"]]})
    data = read_data(path, text=AUTO)
    assert data.labels.tolist() == ["x", "y", "x"]
    assert any("sheet 'data' is read" in note and "'notes'" in note for note in data.notes)
    with pytest.raises(DataFormatError, match=r"t.xlsx, sheet 'data', row 4, column 2 \('b'\)"):
        read_data(path, text=TableFormat(sheet="data"))
    with pytest.raises(UsageError, match=r"--sheet 'other' is not a sheet of .*'data', 'notes'"):
        read_data(path, text=TableFormat(sheet="other"))
    (tmp_path / "broken.xlsx").write_bytes(path.read_bytes()[:500])
    with pytest.raises(DataFormatError, match=r"broken.xlsx: damaged or not a workbook"):
        read_data(tmp_path / "broken.xlsx")


def test_long_sheets_and_blank_cells_beside_them(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr("residuum.inputs.workbook.tell_progress", lambda *words: told.append(words[1:]))
    path = tmp_path / "t.xlsx"
    workbook(path, {"s": [["a", "b", "label"], *([i, i % 9, "xy"[i % 2], "  "] for i in range(1100))]})
    data = read_data(path)
    assert (data.features.shape, data.columns) == ((1100, 2), ("a", "b"))
    assert told == [(500,), (1000,), (1101, 1101)]


def test_a_workbook_of_charts_alone_has_no_rows(tmp_path):
    openpyxl, chart = pytest.importorskip("openpyxl"), pytest.importorskip("openpyxl.chart")
    book = openpyxl.Workbook()
    book.create_chartsheet("chart").add_chart(chart.BarChart())
    book.remove(book.active)
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(DataFormatError, match=r"t\.xlsx has no sheet with cells"):
        read_data(tmp_path / "t.xlsx")


def test_dates_of_workbooks_and_parquet_are_dates(tmp_path):
    pytest.importorskip("pyarrow", reason="needs the extra 'tables': pyarrow")
    when = pd.to_datetime(["2020-01-01", "2020-02-01"])
    table = pd.DataFrame({"a": [1, 2], "when": when, "label": ["x", "y"]})
    paths = [tmp_path / "t.parquet", tmp_path / "t.xlsx"]
    table.to_parquet(paths[0])
    for path in paths:
        if path.suffix == ".xlsx":
            workbook(
                path, {"s": [list(table.columns), *(list(row) for row in table.itertuples(index=False))]}
            )
        with pytest.raises(DataFormatError, match=r"column 2 \('when'\) holds a date"):
            read_data(path, text=AUTO)


def test_a_workbook_that_expands_without_measure_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "b.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/sharedStrings.xml", bytes(70 * 2**20))
    pytest.importorskip("openpyxl")
    with pytest.raises(DataFormatError, match="taken for an attack"):
        read_data(tmp_path / "b.xlsx")


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz", ".xlsx"])
def test_blocks_together_are_the_whole(tmp_path, ending):
    if ending == ".parquet":
        pytest.importorskip("pyarrow", reason="needs the extra 'tables': pyarrow")
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((250, 3)).round(3), rng.choice(["p", "q"], 250)
    table = pd.DataFrame(X, columns=list("abc")).assign(town=rng.choice(["r", "s"], 250), label=y)
    path = tmp_path / f"t{ending}"
    if ending == ".npz":
        np.savez(path, X=X, y=y)
    elif ending == ".xlsx":
        workbook(path, {"s": [list(table.columns), *(list(row) for row in table.itertuples(index=False))]})
    else:
        table.to_csv(path, index=False) if ending == ".csv" else table.to_parquet(path)
    whole = read_data(path, text=AUTO)
    expected = ExpectedColumns(whole.columns, whole.features.shape[1], whole.label, whole.texts)
    blocks = list(read_blocks(path, rows=64, expected=expected, text=AUTO))
    assert max(map(len, blocks)) <= 64
    for field in ("features", "labels", "names"):
        parts = [getattr(block, field) for block in blocks]
        assert np.concatenate(parts).tolist() == getattr(whole, field).tolist()


def test_a_table_may_end_where_a_block_does(tmp_path):
    path = write(tmp_path / "d.csv", [[i, i % 7, "xy"[i % 2]] for i in range(64)], ["a", "b", "label"])
    blocks = list(read_blocks(path, rows=32))
    assert [block.names[-1] for block in blocks] == ["31", "63"]


def test_a_block_in_which_every_row_is_left_out_is_skipped(tmp_path):
    rows = [[i, "" if i < 70 else i % 7, "x"] for i in range(100)]
    path = write(tmp_path / "d.csv", rows, ["a", "b", "label"])
    drop = TableFormat(missing="drop")
    blocks = list(read_blocks(path, rows=32, text=drop))
    assert np.concatenate([block.names for block in blocks]).tolist() == [str(i) for i in range(70, 100)]
    with pytest.raises(DataFormatError, match="none is left"):
        list(read_blocks(write(tmp_path / "d.csv", rows[:70], ["a", "b", "label"]), rows=32, text=drop))


# Columns that tell rows apart.


def found_ids(tmp_path, n=60, **columns):
    rng = np.random.default_rng(0)
    content = {"x": rng.standard_normal(n), **columns, "label": rng.choice(["p", "q"], n)}
    path = tmp_path / "t.csv"
    pd.DataFrame(content).to_csv(path, index=False)
    data, found = without_row_ids(read_data(path, label="label", text=AUTO))
    assert len(data.columns) == 1 + len(columns) - len(found)
    return [name for j, name in enumerate(content) if j in found]


RNG = np.random.default_rng(1)
IDS = {
    "counted from 0": np.arange(60),
    "counted from 1, downwards": np.arange(60, 0, -1),
    "shuffled": RNG.permutation(60),
    "with gaps": np.sort(RNG.choice(10_000, 60, replace=False)),
    "dense, shuffled": RNG.permutation(np.sort(RNG.choice(120, 60, replace=False))),
    "names": [f"Mr. {i}" for i in range(60)],
}
MEASUREMENTS = {
    "fractions": RNG.standard_normal(60),
    "rising fractions": np.sort(RNG.standard_normal(60)),
    "whole numbers of a large range": RNG.choice(10**6, 60, replace=False),
    "whole numbers that repeat": RNG.integers(0, 50, 60),
    "categories": RNG.choice(["a", "b"], 60),
}


@pytest.mark.parametrize("name", IDS)
def test_what_tells_rows_apart_is_left_out(tmp_path, name):
    assert found_ids(tmp_path, z=IDS[name]) == ["z"]


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_measurements_stay(tmp_path, name):
    assert found_ids(tmp_path, z=MEASUREMENTS[name]) == []


def test_a_number_that_comes_again_late_is_no_id(tmp_path):
    assert found_ids(tmp_path, n=1001, z=[*range(1000), 0]) == []


def test_a_table_of_ids_alone_has_no_features(tmp_path):
    path = write(tmp_path / "d.csv", [[i, "xy"[i % 2]] for i in range(20)], ["my nr", "label"])
    with pytest.raises(
        DataFormatError, match=r"no column of features is left.*rise.*--keep 'my nr' keeps it"
    ):
        without_row_ids(read_data(path))


def test_a_name_can_show_an_id(tmp_path):
    numbers = MEASUREMENTS["whole numbers of a large range"]
    names = ["customer_id", "PassengerId", "ID", "row", "humid", "ozoneNo"]
    left_out = [name for name in names if found_ids(tmp_path, **{name: numbers})]
    assert left_out == ["customer_id", "PassengerId", "ID", "row", "ozoneNo"]


def test_row_numbers_do_not_reach_the_model(run, tmp_path):
    """Sorted by class, the number of the row would give every answer away."""
    rng = np.random.default_rng(0)
    rows = [[i, *rng.standard_normal(3).round(6), "p" if i < 100 else "q"] for i in range(200)]
    path = write(tmp_path / "t.csv", rows, ["nr", "a", "b", "c", "label"])
    code, told, said = run("fit", path, "--test-size", "0.3", "--json", "--out", tmp_path / "m")
    assert code == 0
    assert "column 'nr' is left out: its whole numbers rise" in said
    assert json.loads(told)["held_out"]["accuracy"] < 0.7
    code, told, said = run(
        "fit", path, "--test-size", "0.3", "--json", "--keep", "nr", "--out", tmp_path / "k"
    )
    assert "left out" not in said
    assert json.loads(told)["held_out"]["accuracy"] > 0.7
    code, told, _ = run("predict", tmp_path / "m", path)
    assert (code, len(told.splitlines())) == (0, 201)


def test_a_table_without_header_is_read_again_without_the_column_left_out(run, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "t.csv"
    path.write_text("".join(f"{a:.3f},{i},{b:.3f},{i % 2}\n" for i, (a, b) in enumerate(rng.random((40, 2)))))
    assert run("fit", path, "--out", tmp_path / "m")[0] == 0
    code, told, _ = run("evaluate", tmp_path / "m", path, "--json")
    assert (code, json.loads(told)["in_model"]) == (0, 40)


# The commands.


def test_a_table_as_it_is_from_fit_to_explain(run, titanic, tmp_path):
    model, new = tmp_path / "m.residuum", tmp_path / "new.csv"
    code, told, said = run(
        "fit", titanic, "--label", "Survived", "--test-size", "0.3", "--json", "--out", model
    )
    assert code == 0
    summary = json.loads(told)
    assert summary["steps"][0] == "TableEncoder"
    assert summary["held_out"]["accuracy"] > 0.75
    for sentence in (
        "column 'PassengerId' is left out",
        "text columns by category: 'Sex' (2), 'Embarked' (3)",
        "missing values are filled in, with a column that marks them: 'Age', 'Cabin', 'Embarked'",
        "because no text in them is frequent: 'Ticket'",
    ):
        assert sentence in said
    keep = [i for i, name in enumerate(HEADER) if name not in ("Survived", "PassengerId")]
    rows = [[row[i] for i in keep] for row in passengers(3, seed=5)]
    rows.append([2, "New", "diverse", "?", "", "NA", "", "Z"])  # unknown categories, and gaps where none were
    write(new, rows, [HEADER[i] for i in keep])
    code, told, _ = run("predict", model, new)
    assert code == 0
    answers = list(csv.DictReader(io.StringIO(told)))
    assert [answer["name"] for answer in answers] == [*(f"Smith, Mr. {i}" for i in range(3)), "New"]
    table = pd.read_csv(new, na_values=["?", "-"], dtype={"Ticket": str})
    said_by_library = load_model(model).predict(table.drop(columns="Name").to_numpy(dtype=object))
    assert [str(label) for label in said_by_library] == [answer["label"] for answer in answers]
    assert run("explain", model, new, "--row", "3")[0] == 0


def test_missing_values_as_asked(run, tmp_path):
    rng = np.random.default_rng(0)
    rows = [[*rng.standard_normal(2).round(3), "pq"[i % 2]] for i in range(40)]
    whole = write(tmp_path / "whole.csv", rows, ["a", "b", "label"])
    gaps = write(
        tmp_path / "gaps.csv",
        [["NA", *row[1:]] if i < 4 else row for i, row in enumerate(rows)],
        ["a", "b", "label"],
    )
    plain, filling = tmp_path / "plain", tmp_path / "filling"
    assert run("fit", whole, "--out", plain)[0] == 0
    code, told, _ = run("fit", whole, "--missing", "impute", "--json", "--out", filling)
    assert json.loads(told)["steps"][0] == "TableEncoder"
    code, _, said = run("predict", plain, gaps)
    assert (code, "line 2, column 1 ('a'): the value is missing" in said) == (3, True)
    code, _, said = run("predict", plain, gaps, "--missing", "impute")
    assert (code, "does not know what to fill in" in said) == (2, True)
    code, told, said = run("predict", plain, gaps, "--missing", "drop")
    assert (code, len(told.splitlines())) == (0, 37)
    assert "4 of 40 rows with missing values are left out" in said
    assert len(run("predict", filling, gaps)[1].splitlines()) == 41
    assert run("fit", gaps, "--missing", "error", "--out", plain)[0] == 3
    code, told, said = run("fit", gaps, "--missing", "drop", "--json", "--out", plain)
    assert (json.loads(told)["samples"], "TableEncoder" in told) == (36, False)
    code, told, _ = run("fit", gaps, "--json", "--out", plain)
    assert (json.loads(told)["samples"], json.loads(told)["steps"][0]) == (40, "TableEncoder")


def test_comparing_encodes_too(run, titanic, tmp_path):
    arguments = ("compare", titanic, "--label", "Survived", "--methods", "crc,svm", "--trials", "2", "--json")
    code, told, said = run(*arguments, "--out", tmp_path / "run")
    assert code == 0, said
    assert all(row["accuracy_mean"] > 0.7 for row in json.loads(told)["summary"])


def test_rows_that_the_model_holds_are_told(run, tmp_path):
    rng = np.random.default_rng(0)
    rows = [[*rng.standard_normal(3).round(6), "pq"[int(rng.random() < 0.5)]] for _ in range(80)]
    header = ["a", "b", "c", "label"]
    train, new = (
        write(tmp_path / "train.csv", rows[:60], header),
        write(tmp_path / "new.csv", rows[40:], header),
    )
    for options in (["--kernel", "none"], [], ["--pca", "2", "--kernel", "poly"]):
        assert run("fit", train, "--out", tmp_path / "m", *options)[0] == 0
        found = json.loads(run("evaluate", tmp_path / "m", new, "--json")[1])
        said = json.loads(run("predict", tmp_path / "m", new, "--json")[1])["answers"]
        assert found["in_model"] == 20
        truth = [row[-1] for row in rows[60:]]
        right = np.mean([answer["label"] == label for answer, label in zip(said[20:], truth, strict=True)])
        assert found["accuracy_of_others"] == right
        shown = run("evaluate", tmp_path / "m", new)[1]
        assert "20 of these samples are in the model itself" in shown
        assert f"Accuracy on the other 20: {100 * right:.2f} %" in shown
    assert "All 60 samples are in the model itself" in run("evaluate", tmp_path / "m", train)[1]
    only_new = write(tmp_path / "only_new.csv", rows[60:], header)
    assert "in the model" not in run("evaluate", tmp_path / "m", only_new)[1]


POISONED = [
    ["--scale", "standard", "--kernel", "none"],
    ["--scale", "minmax", "--kernel", "rbf"],
    ["--scale", "unit", "--pca", "3", "--kernel", "poly"],
    ["--select", "cv", "--method", "crc"],
    ["--probability"],
]


@pytest.mark.parametrize("options", POISONED, ids=" ".join)
def test_no_test_row_touches_the_model(run, tmp_path, options):
    """Huge values, new categories, gaps and equal ids in the test rows: the model is the same, bit by bit."""
    rows = [[*row, "test" if i % 3 == 0 else "train"] for i, row in enumerate(passengers(120))]
    clean = write(tmp_path / "clean.csv", rows, [*HEADER, "part"])
    poison = [7, None, 1e9, "Nobody", "diverse", -1e12, "same ticket", 1e15, "same cabin", "Z", "test"]
    spoiled = [[*poison[:1], row[1], *poison[2:]] if row[-1] == "test" else row for row in rows]
    spoiled = write(tmp_path / "spoiled.csv", spoiled, [*HEADER, "part"])
    models = []
    for path in (clean, spoiled):
        out = path.with_suffix(".residuum")
        code, _, said = run("fit", path, "--label", "Survived", "--split", "part", "--out", out, *options)
        assert code == 0, said
        with zipfile.ZipFile(out) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        description = json.loads(members.pop("model.json"))
        description["about"].pop("created")
        models.append((members, description))
    assert models[0] == models[1]


def test_no_test_picture_touches_the_codebook(run, tmp_path):
    pytest.importorskip("cv2")
    from PIL import Image
    from ugly_images import scene

    codebooks = []
    for name, tested in (("clean", 40), ("spoiled", 90)):
        for part, first in (("train", 0), ("test", tested)):
            for k in range(8):
                folder = tmp_path / name / part / "pq"[k % 2]
                folder.mkdir(parents=True, exist_ok=True)
                Image.fromarray(scene(160, 160, seed=first + k)).save(folder / f"{k}.png")
        code, _, said = run("fit", tmp_path / name, "--out", tmp_path / f"{name}.residuum")
        assert code == 0, said
        codebooks.append(open_model(tmp_path / f"{name}.residuum").estimator[0].codebook_)
    np.testing.assert_array_equal(*codebooks)


# Long work.


def rounded(text):
    return re.sub(r"\d\.\d+(e-\d+)?", lambda number: f"{float(number[0]):.6f}", text)


def test_predicting_by_blocks_changes_nothing(run, titanic, tmp_path, monkeypatch):
    options = ("--label", "Survived", "--probability", "--kernel", "none", "--out", tmp_path / "m")
    assert run("fit", titanic, *options)[0] == 0
    whole = [run("predict", tmp_path / "m", titanic, *form)[1] for form in ([], ["--json"])]
    monkeypatch.setattr("residuum.models.BLOCK_ROWS", 7)
    monkeypatch.setattr("residuum.estimators.answers.BLOCK_ROWS", 7)
    for form, before in zip(([], ["--json"]), whole, strict=True):
        told = run("predict", tmp_path / "m", titanic, *form)[1]
        said = run("predict", tmp_path / "m", titanic, *form, "--out", tmp_path / "answers")[2]
        assert (tmp_path / "answers").read_text() == told
        assert "200 answers" in said
        # The last digits of products depend on the size of the block.
        assert rounded(told) == rounded(before)
    assert json.loads(run("evaluate", tmp_path / "m", titanic, "--json")[1])["samples"] == 200


@pytest.mark.parametrize("out", [[], ["--out", "answers.csv"]])
def test_a_mistake_in_a_late_block_leaves_nothing(run, titanic, tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("residuum.models.BLOCK_ROWS", 50)
    assert run("fit", titanic, "--label", "Survived", "--out", "m")[0] == 0
    rows = passengers()
    rows[180][7] = "many"
    code, told, said = run("predict", "m", write(tmp_path / "new.csv", rows), *out)
    assert (code, told) == (3, "")
    assert "line 182, column 8 ('Fare'): 'many' is not a number" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "new.csv"]


def test_the_model_is_saved_before_the_held_out_samples_are_answered(run, titanic, tmp_path, monkeypatch):
    there = []

    def interrupted(*_):
        there.append(open_model(tmp_path / "m").about["method"])
        raise KeyboardInterrupt

    monkeypatch.setattr("residuum.models.answer", interrupted)
    code, _, said = run("fit", titanic, "--label", "Survived", "--test-size", "0.3", "--out", tmp_path / "m")
    assert (code, there) == (130, ["SoftNRC"])
    assert said.splitlines()[-1].startswith("Interrupted. The model is saved as")


@pytest.mark.parametrize(
    "wrong",
    [
        "--test-size 2",
        "--seed -1",
        "--method best",
        "--set l2=-1",
        "--with magic",
        "--pca 0",
        "--encoding klingon",
        "--reject-by margin",
        "--text a --encode none",
        "--test t.csv --split part",
    ],
)
def test_arguments_are_checked_before_files_are_read(run, tmp_path, wrong):
    (tmp_path / "not a table.csv").write_bytes(b"\0")
    code, _, said = run("fit", tmp_path / "not a table.csv", "--out", tmp_path / "m", *wrong.split())
    assert code == 2, said


def test_a_table_is_fitted_in_four_times_its_memory(tmp_path, run):
    import tracemalloc

    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 20))
    path = tmp_path / "t.csv"
    with path.open("w") as file:
        file.write(",".join(f"f{j}" for j in range(20)) + ",label\n")
        file.writelines(",".join(map("{:.4f}".format, x)) + f",{'pq'[int(x[0] > 0)]}\n" for x in X)
    tracemalloc.start()
    code, _, said = run("fit", path, "--method", "crc", "--kernel", "none", "--out", tmp_path / "m")
    fitted = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    answered, _, _ = run("predict", tmp_path / "m", path, "--out", tmp_path / "answers.csv")
    predicted = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert (code, answered) == (0, 0), said
    assert fitted <= 4 * X.nbytes + 8e6, fitted / X.nbytes  # what the commands import takes 8 MB at most
    assert predicted <= 3 * X.nbytes + 8e6, predicted / X.nbytes


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bars_are_shown_while_reading_fitting_and_answering(tmp_path, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("residuum.estimators.answers.BLOCK_ROWS", 20)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    path, options = write(tmp_path / "long.csv", passengers(1500)), "--test-size 0.3 --select cv --method crc"
    words = ["fit", path, "--label", "Survived", *options.split(), "--out", tmp_path / "m"]
    assert main([str(word) for word in words]) == 0
    told = terminal.getvalue()
    for task in ("reading long.csv", "choosing by cross-validation, folds", "fitting", "answering"):
        assert task in told


def test_a_bar_stays_until_its_own_work_is_done(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bars():
        for task in ("reading", "fitting"):
            tell_progress(task, 1, 3)
        tell_progress("reading", 3, 3)
        before = len(terminal.getvalue())
        tell_progress("fitting", 2, 3)
    assert "fitting" in terminal.getvalue()[before:]
    assert "reading" not in terminal.getvalue()[before:]


def test_an_error_is_a_residuum_error(tmp_path):
    with pytest.raises(ResiduumError):
        read_data(write(tmp_path / "t.csv", [[1, "x"]], ["a", "label"]), text=TableFormat(keep=("b",)))
