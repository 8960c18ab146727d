"""People's own files: the right answer, or one clear error that names the line and the column."""

from __future__ import annotations

import pickle
import sys
import tracemalloc
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import scipy.io
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris, load_wine

from residuum.errors import DataFormatError, DataNotFoundError, ResiduumError, UsageError
from residuum.inputs import ExpectedColumns, OwnData, TableFormat, read_data
from residuum.inputs.splitting import train_test

PLAIN = [[1.0, 2.0], [3.0, 4.0]]

# name -> (bytes of the file, features, labels); the guesses must come out right.
GOOD = {
    "plain": (b"a,b,label\n1,2,x\n3,4,y\n", PLAIN, ["x", "y"]),
    "byte-order mark": (b"\xef\xbb\xbfa,b,label\n1,2,x\n3,4,y\n", PLAIN, ["x", "y"]),
    "utf-16": ("a\tb\tlabel\n1\t2\tx\n3\t4\tü\n".encode("utf-16"), PLAIN, ["x", "ü"]),
    "semicolons": (b"a;b;label\n1;2;x\n3;4;y\n", PLAIN, ["x", "y"]),
    "semicolons and points": (b"a;b;label\n1.0;2;x\n3;4.0;y\n", PLAIN, ["x", "y"]),
    "bars": (b"a|b|label\n1|2|x\n3|4|y\n", PLAIN, ["x", "y"]),
    "decimal comma": (b"a;b;label\n1,5;2,25;x\n3,0;4;y\n", [[1.5, 2.25], [3, 4]], ["x", "y"]),
    "quoted labels": (b'a,b,label\n1,2,"x, 1st"\n3,4,"y ""q"""\n', PLAIN, ["x, 1st", 'y "q"']),
    "windows line ends": (b"a,b,label\r\n1,2,x\r\n3,4,y\r\n", PLAIN, ["x", "y"]),
    "old line ends": (b"a,b,label\r1,2,x\r3,4,y\r", PLAIN, ["x", "y"]),
    "delimiter at line ends": (b"a,b,label,\n1,2,x,\n3,4,y,\n", PLAIN, ["x", "y"]),
    "empty rows at the end": (b"a;b;label\n1;2;x\n3;4;y\n;;\n\n", PLAIN, ["x", "y"]),
    "no header": (b"1,2,x\n3,4,y\n", PLAIN, ["x", "y"]),
    "no header, numbers only": (b"1,2,0\n3,4,1\n", PLAIN, [0, 1]),
    "label first": (b"class,a,b\nx,1,2\ny,3,4\n", PLAIN, ["x", "y"]),
    "label by being text": (b"a,kind,b\n1,x,2\n3,y,4\n", PLAIN, ["x", "y"]),
    "leading zeros": (b"a,b,label\n1,2,007\n3,4,12\n", PLAIN, ["007", "12"]),
    "whole floats": (b"a,b,label\n1,2,1.0\n3,4,2.0\n", PLAIN, [1, 2]),
    "header of savetxt": (b"# a,b,label\n1.0,2.0,0.0\n3.0,4.0,1.0\n", PLAIN, [0, 1]),
    "index of pandas": (b",a,b,label\n0,1,2,x\n1,3,4,y\n", PLAIN, ["x", "y"]),
    "names": (b"name,a,b,kind\ns1,1,2,x\ns2,3,4,y\n", PLAIN, ["x", "y"]),
}

# name -> (bytes of the file, what the error must say)
BAD = {
    "missing value": (b"a,b,label\n1,2,x\n3,,y\n", "line 3, column 2 ('b'): the value is missing"),
    "missing word": (b"a,b,label\n1,2,x\n3,NA,y\n", "line 3, column 2 ('b'): the value is missing"),
    "missing label": (b"a,b,label\n1,2,x\n3,4,\n", "line 3, column 3 ('label'): the label is missing"),
    "duplicate header": (b"a,b,a,label\n1,2,3,x\n", "data.csv, column 3: the name 'a' is that of column 1"),
    "mixed types": (b"a,b,label\n1,2,x\n3,4 mg,y\n5,6,y\n", "line 3, column 2 ('b'): '4 mg' is not a number"),
    "late text": (b"a,b,l\n" + b"1,2,x\n" * 900 + b"1,foo,x\n", "line 902, column 2 ('b'): 'foo'"),
    "after a cell of two lines": (b'a,b,label\n1,2,"x\ny"\n3,no,z\n3,4,z\n3,4,z\n', "line 4, column 2"),
    "empty": (b"", "is empty"),
    "blank": (b"\n  \n\n", "is empty"),
    "only a header": (b"a,b,label\n", "holds a header (line 1) and no rows"),
    "row too short": (b"a,b,label\n1,2,x\n3,y\n", "line 3: 2 cells where 3 columns are expected; column 3"),
    "row too long": (
        b"a,b,label\n1,2,x\n3,4,5,y\n",
        "line 3: 4 cells where 3 columns are expected; column 4",
    ),
    "NUL": (b"a,b,label\n1,2,x\n3,\x004,y\n", "line 3, character 3: a NUL byte"),
    "latin-1": (b"a,b,label\n1,2,x\n3,4,caf\xe9\n", "line 3, byte 8: 0xe9 is not utf-8"),
    "one column": (b"a\n1\n2\n", "one column only"),
    "open quote": (b'a,b,label\n1,2,"x\n3,4,y\n', "line 2: a quotation mark is opened and not closed"),
    "text after quote": (b'a,b,label\n1,2,"x"y\n', "line 2: text follows a closing quotation mark"),
    "infinite": (b"a,b,label\n1,2,x\n3,inf,y\n", "line 3, column 2 ('b'): 'inf' is not a finite number"),
    "underscore": (b"a,b,label\n1,2,x\n3,1_000,y\n", "line 3, column 2 ('b'): '1_000' is not a number"),
    "continuous target": (b"a,b,label\n1,2,0.5\n3,4,1.5\n", "line 2, column 3 ('label'): the label is '0.5'"),
    "thousands or decimals": (b"a;b;l\n1,500;2,250;x\n3;4;y\n", "line 2, column 1: '1,500' may be"),
    "late decimal point": (b"a;b;l\n" + b"1,5;2,5;x\n" * 300 + b"3.5;4;y\n", "line 302, column 1 ('a')"),
    "two text columns": (b"a,b,site,kind\n1,2,p,x\n3,4,q,y\n", "column 3 ('site'), column 4 ('kind')"),
    "comment above": (b"# wine\na,b,label\n1,2,x\n3,4,y\n", "line 1: 1 cell, but 3 in every line below"),
    "sep= of Excel": (b"sep=;\na;b;label\n1;2;x\n3;4;y\n", "line 1: 2 cells, but 3 in every line below"),
    "name of the first column absent": (b"a,label\nr1,1,x\nr2,3,y\n", "line 1: 2 cells, but 3 in every"),
    "spreadsheet": (b"PK\x03\x04junk", "is a zip or a spreadsheet"),
}


@pytest.mark.parametrize("name", GOOD)
def test_text_tables_are_read_right(name, tmp_path):
    content, features, labels = GOOD[name]
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    data = read_data(path)
    assert data.features.tolist() == features
    assert data.labels.tolist() == labels
    assert data.kind == "table"


@pytest.mark.parametrize("name", BAD)
def test_text_tables_that_are_wrong_say_where(name, tmp_path):
    content, message = BAD[name]
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    with pytest.raises(ResiduumError) as caught:
        read_data(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)
    assert caught.value.exit_code in (2, 3)


def test_what_was_guessed_is_noted(tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(b"id;a;b;kind\nq1;1,5;2;x\nq2;3;4;y\n")
    data = read_data(path)
    told = " ".join(data.notes)
    for word in ("semicolon", "decimal mark: comma", "a header", "'kind'", "names of the samples"):
        assert word in told
    assert data.names.tolist() == ["q1", "q2"]
    assert data.columns == ("a", "b")


def test_wavelengths_are_a_header(tmp_path):
    path = tmp_path / "spectra.csv"
    waves = [str(w) for w in range(900, 918, 2)]
    rows = [[".1", ".3", ".2", ".1", ".4", ".2", ".3", ".1", str(k)] for k in (0, 1)]
    path.write_text("\n".join(",".join(row) for row in [waves, *rows]))
    data = read_data(path)
    assert data.columns == tuple(waves[:-1])
    assert data.labels.tolist() == [0, 1]
    assert read_data(path, text=TableFormat(header=False)).features.shape == (3, 8)
    # A number that is the name of a column is that name; an int is always a position.
    assert read_data(path, label="916").label == "916"
    assert read_data(path, label=-1).label == "916"


@pytest.mark.parametrize("label", ["b", "1", "-2", 1, -2])
def test_label_by_name_or_position(label, tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(b"a,b,c\n1,5,2\n3,6,4\n")
    data = read_data(path, label=label)
    assert data.labels.tolist() == [5, 6]
    assert data.features.tolist() == PLAIN


def test_a_column_that_is_not_there_is_named(tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(b"a,b,c\n1,5,2\n3,6,4\n")
    for label in ("d", "3", "-4"):
        with pytest.raises(UsageError, match=r"--label .* is not a column of .*'a', 'b', 'c'"):
            read_data(path, label=label)
    with pytest.raises(UsageError, match="both column 2"):
        read_data(path, label="b", group="b")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"drop": ["a", "b"]}, "no column of features is left beside the label"),
        ({"drop": ["a", "b", "label"]}, "no column is left for the label"),
        ({"labels": "y.npy"}, r"--labels is for a \.npy file of features\. Got data\.csv\."),
        (
            {"text": TableFormat(delimiter=",", decimal=",")},
            "comma cannot be both the delimiter and the decimal mark",
        ),
    ],
)
def test_options_that_do_not_fit_a_table_are_refused(options, told, tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(b"a,b,label\n1,2,x\n3,4,y\n")
    with pytest.raises(ResiduumError, match=told):
        read_data(path, **options)


def test_options_of_text(tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(b"a,b,label\n1,2,x\n3,,y\n5,6,caf\xe9\n")
    data = read_data(path, text=TableFormat(encoding="latin-1", missing="drop"))
    assert data.features.tolist() == [[1, 2], [5, 6]]
    assert data.labels.tolist() == ["x", "café"]
    assert data.names.tolist() == ["0", "2"]
    assert "1 of 3 rows" in " ".join(data.notes)
    path.write_bytes(b"a;b;l\n1,500;2,250;x\n3;4;y\n")
    assert read_data(path, text=TableFormat(decimal=",")).features.tolist() == [[1.5, 2.25], [3, 4]]
    assert read_data(path, drop=["a"], text=TableFormat(decimal=",")).features.tolist() == [[2.25], [4]]


def test_split_and_groups_by_column(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("a,b,part,person,y\n1,2,train,p,0\n3,4,TEST,q,1\n5,6,val,r,1\n")
    data = read_data(path, split="part", group="person")
    assert data.split.tolist() == ["train", "test", "train"]
    assert data.groups.tolist() == ["p", "q", "r"]
    assert data.features.tolist() == [*PLAIN, [5, 6]]
    assert any("validation" in note for note in data.notes)
    path.write_text("a,b,part,y\n1,2,train,0\n3,4,later,1\n")
    with pytest.raises(DataFormatError, match=r"line 3, column 3 \('part'\): the split says 'later'"):
        read_data(path, split="part")


def test_ten_thousand_columns(tmp_path):
    values = np.random.default_rng(0).normal(size=(30, 10_000))
    path = tmp_path / "wide.csv"
    with path.open("w") as file:
        file.write(",".join(f"f{i}" for i in range(10_000)) + ",label\n")
        for i, row in enumerate(values.tolist()):
            file.write(",".join(map(repr, row)) + f",c{i % 3}\n")
    data = read_data(path)
    np.testing.assert_array_equal(data.features, values)
    assert data.columns[-1] == "f9999"


def test_memory_of_a_long_table_is_about_that_of_its_numbers(tmp_path):
    path = tmp_path / "long.csv"
    row = ",".join(["0.123456789"] * 100)
    with path.open("w") as file:
        file.writelines(f"{row},{i % 3}\n" for i in range(4_000))
    tracemalloc.start()
    data = read_data(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert data.features.shape == (4_000, 100)
    assert peak < 2.5 * data.features.nbytes + 4e6


@settings(max_examples=150, deadline=None)
@given(content=st.binary(max_size=200))
def test_any_bytes_give_samples_or_a_typed_error(content, tmp_path_factory):
    for ending in ("csv", "npz", "npy", "mat", "parquet"):
        path = tmp_path_factory.mktemp("fuzz") / f"data.{ending}"
        path.write_bytes(content)
        try:
            data = read_data(path)
        except ResiduumError:
            continue
        assert data.features.ndim == 2
        assert np.isfinite(data.features).all()
        assert data.labels is None or len(data.labels) == len(data.features)


# A model's view of new data.


def test_columns_are_found_by_name_and_missing_ones_named(tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("c,b,extra,a\n3,2,9,1\n")
    expected = ExpectedColumns(("a", "b", "c"), 3, "label")
    data = read_data(path, expected=expected)
    assert data.features.tolist() == [[1, 2, 3]]
    assert data.labels is None
    assert "'extra'" in " ".join(data.notes)
    path.write_text("c,a\n3,1\n")
    with pytest.raises(DataFormatError, match="lacks 1 of the 3 columns that the model takes: 'b'"):
        read_data(path, expected=expected)


def test_tables_without_header_go_by_position(tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("1,2\n3,4\n")
    expected = ExpectedColumns(None, 2, "2")
    assert read_data(path, expected=expected).labels is None
    named = read_data(path, expected=ExpectedColumns(("a", "b"), 2, "label"))
    assert named.features.tolist() == PLAIN
    assert "there is no header: columns are taken in the order of the training data" in named.notes
    path.write_text("1,2,x\n3,4,y\n")
    data = read_data(path, expected=expected)
    assert (data.features.tolist(), data.labels.tolist()) == (PLAIN, ["x", "y"])
    path.write_text("1,2,3,4\n5,6,7,8\n")
    with pytest.raises(DataFormatError, match="columns of features, the model takes 2"):
        read_data(path, expected=expected)


# Arrays, MATLAB, Parquet.


def test_npz_by_the_names_of_its_arrays(tmp_path):
    X, y = load_iris(return_X_y=True)
    path = tmp_path / "data.npz"
    for names in (("X", "y"), ("data", "target"), ("features", "labels")):
        np.savez(path, **dict(zip(names, (X, y), strict=True)))
        data = read_data(path)
        np.testing.assert_array_equal(data.features, X)
        np.testing.assert_array_equal(data.labels, y)
        assert data.kind == "array"
    np.savez_compressed(path, x_train=X[:100], y_train=y[:100], x_test=X[100:], y_test=y[100:])
    data = read_data(path)
    assert (data.split == "test").tolist() == [False] * 100 + [True] * 50
    np.savez(path, images=np.zeros((4, 3, 2), np.uint8), labels=[0, 1, 0, 1], bad=[False, True, False, False])
    data = read_data(path)
    assert (data.features.shape, data.image_shape) == ((3, 6), (3, 2))


ARRAYS = {"X": PLAIN, "y": [0, 1]}
PARTS = {"x_train": PLAIN, "y_train": [0, 1], "x_test": PLAIN, "y_test": [0, 1]}


@pytest.mark.parametrize(
    ("arrays", "options", "told"),
    [
        (ARRAYS, {"label": "kind"}, r"--label 'kind' is not an array of .*, which holds 'X', 'y'\."),
        (ARRAYS, {"split": "part"}, r"--split 'part' is not an array of"),
        (PARTS, {"split": "part"}, r"training and test samples in separate arrays: leave --split out"),
        (ARRAYS, {"drop": ["a"]}, r"--drop is for tables; .*data\.npz holds arrays"),
        (ARRAYS | {"y": [[0, 1], [1, 0]]}, {}, r"labels 'y' must be text .* Got int64 of shape \(2, 2\)\."),
        (ARRAYS | {"names": ["p", "q", "r"]}, {}, r"data\.npz: 3 names for 2 samples"),
        (
            PARTS | {"x_test": [[1.0, 2.0, 3.0]], "y_test": [0]},
            {},
            r"have 3 features, the training samples 2",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_named(arrays, options, told, tmp_path):
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(ResiduumError, match=told):
        read_data(tmp_path / "data.npz", **options)


def test_the_array_of_labels_may_have_any_name(tmp_path):
    np.savez(tmp_path / "data.npz", **PARTS, X=[[5.0, 6.0]], kind=["x"])
    data = read_data(tmp_path / "data.npz", label="kind")
    assert (data.features.tolist(), data.labels.tolist()) == ([[5, 6]], ["x"])


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_arrays_of_one_name_are_refused(tmp_path):
    np.savez(tmp_path / "data.npz", X=np.eye(4), y=[0, 1, 0, 1])
    with zipfile.ZipFile(tmp_path / "data.npz", "a") as archive:
        archive.writestr("y.npy", archive.read("y.npy"))
    with pytest.raises(DataFormatError, match="two arrays are called 'y'"):
        read_data(tmp_path / "data.npz")


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    np.savez_compressed(tmp_path / "data.npz", X=np.zeros((2200, 4000)), y=np.arange(2200) % 2)
    assert (tmp_path / "data.npz").stat().st_size < 100_000
    tracemalloc.start()
    try:
        with pytest.raises(
            DataFormatError, match=r"array 'X': \d+ bytes expand to 70400128, more than 200 times"
        ):
            read_data(tmp_path / "data.npz")
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()
    # Small arrays may be as plain as they are, and so may large ones that are not compressed.
    np.savez_compressed(tmp_path / "data.npz", X=np.ones((200, 4000)), y=np.arange(200) % 2)
    assert read_data(tmp_path / "data.npz").features.shape == (200, 4000)
    np.savez(tmp_path / "data.npz", X=np.ones((2200, 4000)), y=np.arange(2200) % 2)
    assert read_data(tmp_path / "data.npz").features.shape == (2200, 4000)


def test_text_of_no_characters_cannot_declare_any_length(tmp_path):
    np.save(tmp_path / "X.npy", np.eye(3))
    for dtype in ("<U0", "|S0"):
        header = {"descr": dtype, "fortran_order": False, "shape": (10**12,)}
        with (tmp_path / "y.npy").open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
        with zipfile.ZipFile(tmp_path / "data.npz", "w") as archive:
            archive.write(tmp_path / "X.npy", "X.npy")
            archive.write(tmp_path / "y.npy", "y.npy")
        with pytest.raises(DataFormatError, match=r"array 'y': expected numbers or text. Got [<|][US]0"):
            read_data(tmp_path / "data.npz")
        with pytest.raises(DataFormatError, match="expected numbers or text"):
            read_data(tmp_path / "X.npy", labels=tmp_path / "y.npy")


def test_npz_that_cannot_be_trusted(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, X=np.zeros((2, 2)), y=np.array(["a", "b"], dtype=object))
    with pytest.raises(DataFormatError, match="array 'y': holds Python objects"):
        read_data(path)
    np.savez(path, X=np.array([[1.0, np.nan]]), y=[1])
    with pytest.raises(DataFormatError, match="row 0, column 1: the value is missing"):
        read_data(path)
    np.savez(path, X=np.zeros((3, 2)), y=[1, 2])
    with pytest.raises(DataFormatError, match="2 labels for samples of shape"):
        read_data(path)
    np.savez(path, a=np.zeros((3, 2)))
    with pytest.raises(DataFormatError, match=r"holds 'a'\. Call the samples X"):
        read_data(path)
    head = b"\x93NUMPY\x01\x00v\x00" + b"{'descr':'<f8','fortran_order':False,'shape':(9999999999,99999),}"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", head.ljust(127) + b"\n")
    with pytest.raises(DataFormatError, match="the header declares"):
        read_data(path)


def test_npy_pair(tmp_path):
    np.save(tmp_path / "X.npy", np.array(PLAIN))
    np.save(tmp_path / "y.npy", np.array(["a", "b"]))
    data = read_data(tmp_path / "X.npy", labels=tmp_path / "y.npy")
    assert (data.features.tolist(), data.labels.tolist()) == (PLAIN, ["a", "b"])
    assert read_data(tmp_path / "X.npy").labels is None
    (tmp_path / "y.txt").write_text("red kite\nheron\n")
    assert read_data(tmp_path / "X.npy", labels=tmp_path / "y.txt").labels.tolist() == ["red kite", "heron"]
    (tmp_path / "y.txt").write_bytes(b"\xff\n4\n")
    with pytest.raises(DataFormatError, match=r"y\.txt: damaged or not UTF-8 text"):
        read_data(tmp_path / "X.npy", labels=tmp_path / "y.txt")
    for name in ("absent.npy", "."):
        with pytest.raises(DataNotFoundError, match="does not exist, or is not a file"):
            read_data(tmp_path / "X.npy", labels=tmp_path / name)
    (tmp_path / "y.csv").write_text("3\n4\n")
    with pytest.raises(DataFormatError, match=r"y\.csv: damaged or not an \.npy array"):
        read_data(tmp_path / "X.npy", labels=tmp_path / "y.csv")
    np.save(tmp_path / "o.npy", np.array([{}, {}], dtype=object))
    with pytest.raises(DataFormatError, match="holds Python objects"):
        read_data(tmp_path / "X.npy", labels=tmp_path / "o.npy")


def test_matlab_files_with_samples_as_rows_or_columns(tmp_path):
    X, y = load_wine(return_X_y=True)
    path = tmp_path / "data.mat"
    for content in ({"fea": X, "gnd": y[:, None]}, {"X": X.T, "labels": y.astype(float)}):
        scipy.io.savemat(path, content)
        data = read_data(path)
        np.testing.assert_array_equal(data.features, X)
        np.testing.assert_array_equal(data.labels, y)
    words = np.array(["red", "white", "rosé"], dtype=object)[y]
    scipy.io.savemat(path, {"X": X, "y": words})
    assert read_data(path).labels.tolist() == words.tolist()
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(200))
    with pytest.raises(DataFormatError, match="v7"):
        read_data(path)


def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "data.parquet"
    columns = {"a": [1.0, 3.0], "b": [2, 4], "kind": ["x", "y"], "part": ["train", "test"]}
    pq.write_table(pa.table(columns), path)
    data = read_data(path, split="part")
    assert (data.features.tolist(), data.labels.tolist()) == (PLAIN, ["x", "y"])
    assert data.split.tolist() == ["train", "test"]
    for missing in ([2, None], [2.0, np.nan], [True, None]):
        pq.write_table(pa.table({**columns, "b": missing}), path)
        with pytest.raises(DataFormatError, match=r"row 1, column 2 \('b'\): the value is missing"):
            read_data(path, split="part")
        assert read_data(path, split="part", text=TableFormat(missing="drop")).names.tolist() == ["0"]
    pq.write_table(pa.table({name: values[:0] for name, values in columns.items()}), path)
    with pytest.raises(DataFormatError, match=r"data\.parquet holds no rows"):
        read_data(path)
    pq.write_table(pa.table({**columns, "b": [2.0, np.inf]}), path)
    with pytest.raises(DataFormatError, match=r"row 1, column 2 \('b'\): inf is not a finite number"):
        read_data(path, split="part", text=TableFormat(missing="drop"))


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "data.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(ResiduumError, match=r"pyarrow.*pip install 'residuum\[tables\]'"):
        read_data(path)


def test_pickles_are_refused_unread(tmp_path):
    path = tmp_path / "data.pkl"

    class Trap:
        def __reduce__(self):
            return (tmp_path.joinpath("sprung").touch, ())

    path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(DataFormatError, match="pickle"):
        read_data(path)
    path.rename(tmp_path / "data.npy")
    with pytest.raises(DataFormatError):
        read_data(tmp_path / "data.npy")
    assert not (tmp_path / "sprung").exists()
    with pytest.raises(DataNotFoundError):
        read_data(tmp_path / "nothing.csv")
    (tmp_path / "data.xyz").touch()
    with pytest.raises(UsageError, match=r"the ending \.xyz"):
        read_data(tmp_path / "data.xyz")


@pytest.mark.parametrize(
    ("files", "options", "told"),
    [
        ([], {}, "holds no files. Put images into one sub-folder per class"),
        (["p/a.png"], {"label": "kind"}, "--label, --split, --groups and --drop are for tables and arrays"),
        (
            ["train/p/a.png", "test/p/b.png", "test/c.png"],
            {},
            r"test.c\.png lies beside the folders of the classes: move it into one",
        ),
    ],
)
def test_folders_of_images_that_are_not_as_they_should_be(files, options, told, tmp_path):
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(ResiduumError, match=told):
        read_data(tmp_path, **options)


def test_prepared_data_sets(data_home):
    data = read_data(data_home / "usps.npz")
    assert (data.features.shape, data.image_shape) == ((9298, 256), (16, 16))
    assert np.count_nonzero(data.split == "test") == 2007


# Splits.


def _data(tmp_path, rows):
    path = tmp_path / "data.csv"
    path.write_text(
        "a,b,g,label\n" + "".join(f"{i},{i % 7},{g},{label}\n" for i, (g, label) in enumerate(rows))
    )
    return read_data(path, label="label", group="g")


def test_stratified_split_keeps_every_class_on_both_sides(tmp_path):
    data = _data(tmp_path, [(f"g{i}", "common" if i % 5 else "rare") for i in range(50)] + [("x", "lonely")])
    data = replace(data, groups=None)
    train, test = train_test(data, test_size=0.3, seed=1)
    assert sorted([*train, *test]) == list(range(51))
    labels, counts = np.unique(data.labels[test], return_counts=True)
    assert dict(zip(labels.tolist(), counts.tolist(), strict=True)) == {"common": 12, "rare": 3}
    np.testing.assert_array_equal(test, train_test(data, test_size=0.3, seed=1)[1])
    assert set(test) != set(train_test(data, test_size=0.3, seed=2)[1])
    for size in (0, 1, -0.5, 7):
        with pytest.raises(UsageError, match="--test-size must be a share"):
            train_test(data, test_size=size)


def test_no_group_is_on_both_sides(tmp_path):
    data = _data(tmp_path, [(f"person {i // 6}", f"class {i % 2}") for i in range(120)])
    train, test = train_test(data, test_size=0.25, seed=0)
    assert not set(data.groups[train]) & set(data.groups[test])
    assert 0.15 < len(test) / 120 < 0.35
    assert set(data.labels[test]) == {"class 0", "class 1"}


def test_a_class_without_training_samples_is_an_error(tmp_path):
    data = _data(tmp_path, [(f"g{i % 3}", f"class {i % 3}") for i in range(12)])
    with pytest.raises(DataFormatError, match="has held-out samples but none to learn from"):
        train_test(data, test_size=0.3)


ROWS = OwnData("data", "table", np.eye(3), np.array(["x", "x", "y"]), np.arange(3))


@pytest.mark.parametrize(
    ("known", "test_size", "told"),
    [
        ({"split": np.array(["train", "test", "train"])}, 0.5, "own split: leave --test-size out"),
        ({"split": np.full(3, "test")}, None, "the split leaves no training samples"),
        ({"labels": np.array(["x", "y", "z"])}, 0.5, "--test-size needs a class of at least two samples"),
        (
            {"groups": np.full(3, "one")},
            0.5,
            r"--groups needs at least two groups to hold some out\. Got one",
        ),
    ],
)
def test_what_cannot_be_held_out_is_refused(known, test_size, told):
    with pytest.raises(ResiduumError, match=told):
        train_test(replace(ROWS, **known), test_size=test_size)


@pytest.mark.parametrize("ending", ["npz", "npy", "mat", "parts"])
def test_missing_numbers_of_arrays_are_named_or_left_out(ending, tmp_path):
    X = np.arange(12.0).reshape(6, 2)
    y = np.array([0, 1, 0, 1, 0, 1])
    X[3, 1] = np.nan
    path = tmp_path / f"data.{'npz' if ending == 'parts' else ending}"
    keywords = {}
    if ending == "npz":
        np.savez(path, X=X, y=y)
    elif ending == "parts":
        np.savez(path, x_train=X[:4], y_train=y[:4], x_test=X[4:], y_test=y[4:])
    elif ending == "mat":
        scipy.io.savemat(path, {"X": X, "y": y})
    else:
        np.save(path, X)
        np.save(tmp_path / "y.npy", y)
        keywords = {"labels": tmp_path / "y.npy"}
    with pytest.raises(DataFormatError, match=r"row 3, column 1: the value is missing.*--missing drop"):
        read_data(path, **keywords)
    data = read_data(path, text=TableFormat(missing="drop"), **keywords)
    kept = [0, 1, 2, 4, 5]
    assert data.features.tolist() == X[kept].tolist()
    assert data.labels.tolist() == y[kept].tolist()
    assert any("rows with missing values are left out" in note for note in data.notes)
    if ending != "parts":
        assert data.names.tolist() == [str(i) for i in kept]


def test_infinite_numbers_of_arrays_are_never_left_out(tmp_path):
    np.savez(tmp_path / "data.npz", X=[[1.0, 2.0], [np.inf, 1.0]], y=[0, 1])
    with pytest.raises(DataFormatError, match="row 1, column 0: inf is not a finite number"):
        read_data(tmp_path / "data.npz", text=TableFormat(missing="drop"))
    np.savez(tmp_path / "data.npz", X=[[np.nan, 2.0], [np.nan, 1.0]], y=[0, 1])
    with pytest.raises(DataFormatError, match="every row has a missing value"):
        read_data(tmp_path / "data.npz", text=TableFormat(missing="drop"))


def test_damaged_arrays_get_no_misleading_advice(tmp_path):
    for name in ("data.npy", "data.mat"):
        (tmp_path / name).write_bytes(b"hello")
        with pytest.raises(DataFormatError, match="damaged or not") as caught:
            read_data(tmp_path / name)
        assert "pickle" not in str(caught.value)
        assert "run 'residuum data verify'" not in str(caught.value)


def test_data_without_labels_say_where_labels_belong(tmp_path):
    np.save(tmp_path / "data.npy", np.eye(3))
    (tmp_path / "data.csv").write_text("a,b,label\n1,2,\n3,4,\n")
    (tmp_path / "flat").mkdir()
    (tmp_path / "flat" / "a.png").write_bytes(b"x")
    for name, advice in (
        ("data.npy", "--labels"),
        ("data.csv", "--label"),
        ("flat", "one sub-folder per class"),
    ):
        with pytest.raises(DataFormatError, match=rf"has no labels.*{advice}"):
            train_test(read_data(tmp_path / name))


def test_a_negative_seed_is_a_usage_error(tmp_path):
    (tmp_path / "data.csv").write_text("a,b,label\n1,2,x\n3,4,x\n1,3,y\n3,3,y\n")
    with pytest.raises(UsageError, match=r"--seed must be 0 or more\. Got -1"):
        train_test(read_data(tmp_path / "data.csv"), test_size=0.5, seed=-1)
