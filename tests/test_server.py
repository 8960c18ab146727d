"""``residuum serve`` in a real process: its answers are those of the library, whatever the format."""

import asyncio
import io
import json
import socket
import subprocess
import sys
import threading

import httpx
import numpy as np
import photo_model
import pytest
from PIL import Image
from serving import PATIENCE, serving
from sklearn.datasets import load_digits

from residuum import save_model
from residuum.cli.main import main
from residuum.errors import ResiduumError
from residuum.inputs import ExpectedColumns
from residuum.server.bodies import MOST_QUERIES, read_numbers
from residuum.server.model import ServedModel

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

NPY, CSV, JSON = "application/x-npy", "text/csv", "application/json"


def printed(capsys, *arguments):
    capsys.readouterr()
    assert main([str(word) for word in arguments]) == 0
    return json.loads(capsys.readouterr().out)


def as_npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def same(found, expected):
    """Equal, and numbers up to the last digits: a product of other shape sums in another order."""
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        for key in expected:
            same(found[key], expected[key])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            same(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-7, abs=1e-9)
    else:
        assert found == expected


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A server of a model of digits with probabilities and a threshold, and its queries."""
    folder = tmp_path_factory.mktemp("digits")
    X, y = load_digits(return_X_y=True)
    np.savez(folder / "train.npz", X=X[:300], y=y[:300])
    np.save(folder / "queries.npy", X[300:450])
    np.savetxt(folder / "queries.csv", X[300:450], fmt="%g", delimiter=",")
    arguments = (
        "--out",
        folder / "m.residuum",
        "--method",
        "CRC",
        "--probability",
        "--reject-threshold",
        "0.05",
    )
    assert main(["fit", str(folder / "train.npz"), *map(str, arguments)]) == 0
    with serving("serve", folder / "m.residuum", "--port", 0) as server:
        server.folder, server.queries = folder, X[300:450]
        with server.client() as server.http:
            yield server


def body_of(kind, digits):
    if kind == JSON:
        return json.dumps({"queries": digits.queries.tolist()}).encode()
    return (digits.folder / ("queries.npy" if kind == NPY else "queries.csv")).read_bytes()


@pytest.mark.parametrize("kind", [JSON, NPY, CSV])
def test_answers_are_those_of_predict_in_every_format(digits, kind, capsys):
    model, data = digits.folder / "m.residuum", digits.folder / "queries.npy"
    expected = printed(capsys, "predict", model, data, "--json", "--all-probabilities")
    address = "/v1/predict?all_probabilities=true"
    answer = digits.http.post(address, content=body_of(kind, digits), headers={"content-type": kind})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    same(found["answers"], expected["answers"])
    assert found["features_used"] == expected["features_used"]
    assert found["not_converged"] == 0
    assert any(record["rejected"] for record in found["answers"])


def test_a_single_query_and_names_of_ones_own(digits):
    body = {"queries": digits.queries[:2].tolist(), "names": ["<b>one</b>", "two"]}
    answers = digits.http.post("/v1/predict", json=body).json()["answers"]
    assert [record["name"] for record in answers] == ["<b>one</b>", "two"]
    one = as_npy(digits.queries[1])
    alone = digits.http.post("/v1/predict", content=one, headers={"content-type": NPY}).json()["answers"]
    same([{**alone[0], "name": "two"}], answers[1:])


def test_explain_says_what_the_command_prints(digits, capsys):
    model, data = digits.folder / "m.residuum", digits.folder / "queries.npy"
    expected = printed(capsys, "explain", model, data, "--row", "3", "--json", "--atoms", "4")
    found = digits.http.post("/v1/explain?atoms=4", json={"queries": [digits.queries[3].tolist()]}).json()
    for name in ("data", "row", "name", "true_label", "model"):
        expected.pop(name)
        found.pop(name, None)
    assert len(found["atoms"]) == 4
    assert set(found) == set(expected)
    same({name: found[name] for name in expected}, expected)


def test_what_the_server_says_of_itself(digits):
    about = digits.http.get("/v1/model").json()
    assert about["classes"] == list(range(10))
    assert about["training_samples"] == 300
    assert about["input"]["n_features"] == 64
    assert digits.http.get("/healthz").json()["status"] == "ok"
    paths = digits.http.get("/openapi.json").json()["paths"]
    assert set(paths) == {"/v1/predict", "/v1/explain", "/v1/model", "/healthz", "/metrics", "/openapi.json"}
    before = counted(digits.http)
    digits.http.post("/v1/predict", json={"queries": digits.queries[:7].tolist()})
    after = counted(digits.http)
    assert after["residuum_queries_total"] - before["residuum_queries_total"] == 7
    name = 'residuum_requests_total{path="/v1/predict",status="200"}'
    assert after[name] - before.get(name, 0) == 1


def counted(http):
    lines = http.get("/metrics").text.splitlines()
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines) if name[0] != "#"
    }


def test_every_answer_has_the_security_headers(digits):
    for answer in (digits.http.get("/healthz"), digits.http.get("/nothing"), digits.http.post("/v1/predict")):
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"


def test_many_clients_at_once_each_get_their_own_answer(digits):
    expected = digits.http.post(
        "/v1/predict", content=as_npy(digits.queries), headers={"content-type": NPY}
    ).json()["answers"]
    before, found = counted(digits.http), {}

    def ask(i):
        with digits.client() as http:
            for j in range(i, len(digits.queries), 16):
                answer = http.post("/v1/predict", json={"queries": [digits.queries[j].tolist()]})
                found[j] = answer.json()["answers"][0]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    for j, record in enumerate(expected):
        same({**found[j], "name": str(j)}, record)
    after = counted(digits.http)
    turns = after["residuum_turns_total"] - before["residuum_turns_total"]
    assert turns < len(digits.queries), "no two requests were computed together"


def test_a_client_that_stops_in_the_middle_holds_up_nobody(digits):
    with socket.create_connection(("127.0.0.1", digits.port)) as slow:
        slow.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n")
        slow.sendall(b'Content-Length: 1000\r\n\r\n{"queries"')
        answer = digits.http.post("/v1/predict", json={"queries": digits.queries[:1].tolist()})
        assert answer.status_code == 200


def test_a_table_with_texts_gaps_and_names_of_columns(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = ["width,colour,height,kind"]
    for i in range(60):
        kind, colour = "ab"[i % 2], ["red", "blue", ""][rng.integers(3)]
        rows.append(f"{rng.normal() + 3 * (i % 2):.4f},{colour},{rng.normal():.4f},{kind}")
    (tmp_path / "train.csv").write_text("\n".join(rows[:41]) + "\n")
    (tmp_path / "new.csv").write_text("\n".join([rows[0], *rows[41:]]) + "\n")
    model = tmp_path / "m.residuum"
    assert main(["fit", str(tmp_path / "train.csv"), "--out", str(model), "--label", "kind"]) == 0
    expected = printed(capsys, "predict", model, tmp_path / "new.csv", "--json")["answers"]
    cells = [row.split(",") for row in rows[41:]]
    lists = [[float(width), colour or None, float(height)] for width, colour, height, _ in cells]
    objects = [dict(zip(("height", "colour", "width"), row[::-1])) for row in lists]
    with serving("serve", model, "--port", 0) as server, server.client() as http:
        content = (tmp_path / "new.csv").read_bytes()
        answers = [
            http.post("/v1/predict", content=content, headers={"content-type": CSV}),
            http.post("/v1/predict", json={"queries": lists}),
            http.post("/v1/predict", json={"queries": objects}),
        ]
        for answer in answers:
            assert answer.status_code == 200, answer.text
            same(answer.json()["answers"], expected)
        body = http.get("/openapi.json").json()["paths"]["/v1/predict"]["post"]["requestBody"]["content"]
        queries = body["application/json"]["schema"]["properties"]["queries"]["items"]["oneOf"]
        assert queries[0]["items"] == {"type": ["number", "string", "null"]}
        assert queries[1] == {"type": "object", "required": ["width", "colour", "height"]}
        explained = http.post("/v1/explain", json={"queries": objects[:1]}).json()
        told = printed(capsys, "explain", model, tmp_path / "new.csv", "--row", "0", "--json")
        same(explained["features"], told["features"])
        for wrong in (
            [[1, "red"]],
            [[1, 2, "x"]],
            [{"width": 1}],
            [[1, "red", True]],
            [lists[0], objects[0]],
        ):
            assert http.post("/v1/predict", json={"queries": wrong}).status_code == 400


def test_pictures_as_files_and_as_an_array(tmp_path, capsys):
    rng = np.random.default_rng(0)
    for label in ("dark", "light"):
        (tmp_path / "train" / label).mkdir(parents=True)
        for i in range(5):
            save_picture(tmp_path / "train" / label / f"{i}.png", rng, label)
    (tmp_path / "new").mkdir()
    pictures = [save_picture(tmp_path / "new" / f"{i}.png", rng, "dark") for i in range(3)]
    Image.fromarray(pictures[0]).save(tmp_path / "new" / "3.jpg")
    model = tmp_path / "m.residuum"
    fit = ["fit", str(tmp_path / "train"), "--out", str(model), "--with", "pixels", "--image-shape", "12x12"]
    assert main(fit) == 0
    expected = printed(capsys, "predict", model, tmp_path / "new", "--json")["answers"]
    with serving("serve", model, "--port", 0) as server, server.client() as http:
        for i, kind in enumerate(["image/png"] * 3 + ["image/jpeg"]):
            content = (tmp_path / "new" / expected[i]["name"]).read_bytes()
            answer = http.post("/v1/predict", content=content, headers={"content-type": kind})
            assert answer.status_code == 200, answer.text
            same(answer.json()["answers"], [{**expected[i], "name": "0"}])
        body = http.get("/openapi.json").json()["paths"]["/v1/predict"]["post"]["requestBody"]["content"]
        assert {"image/png", "application/x-npy"} < set(body)
        assert "application/json" not in body
        stacked = as_npy(np.stack(pictures))
        found = http.post("/v1/predict", content=stacked, headers={"content-type": NPY}).json()["answers"]
        same(found, [{**record, "name": str(i)} for i, record in enumerate(expected[:3])])
        content = (tmp_path / "new" / "0.png").read_bytes()
        explained = http.post("/v1/explain", content=content, headers={"content-type": "image/png"}).json()
        told = printed(capsys, "explain", model, tmp_path / "new" / "0.png", "--json")
        same(explained["atoms"], told["atoms"])
        assert explained["notes"] == told["notes"]
        assert http.post("/v1/predict", json={"queries": [[1]]}).status_code == 415
        big = io.BytesIO()
        Image.new("L", (9000, 9000)).save(big, "PNG")
        answer = http.post("/v1/predict", content=big.getvalue(), headers={"content-type": "image/png"})
        assert answer.status_code == 413
        assert http.get("/healthz").status_code == 200


def test_photographs_are_answered_by_the_step_that_reads_them(tmp_path):
    shots, labels, fitted = photo_model.photographs()
    path = save_model(fitted, tmp_path / "m.residuum", about={"input": photo_model.WITH})
    model = ServedModel.open(path)
    queries = model.with_features(model.read(as_npy(np.stack(shots)), NPY, most_pixels=10**6))
    (answered,) = model.answer_rows([queries.features])
    assert [record["label"] for record in answered.records] == labels
    assert model.with_features(queries) is queries
    save_model(fitted[-1], path, about={"input": photo_model.WITH})
    model = ServedModel.open(path)
    with pytest.raises(ResiduumError, match="fitted to images, but holds no step that reads them"):
        model.with_features(model.read(as_npy(np.stack(shots)), NPY, most_pixels=10**6))


def save_picture(path, rng, label):
    pixels = rng.integers(0, 100, (16, 16)) + (0 if label == "dark" else 100)
    pixels[:, :4] = 255 if label == "dark" else 0
    picture = pixels.astype(np.uint8)
    Image.fromarray(picture).save(path)
    return picture


def test_bow_sift_reads_bytes_as_it_reads_files(tmp_path):
    pytest.importorskip("cv2")
    from residuum.features import BowSift

    rng = np.random.default_rng(0)
    paths = [tmp_path / f"{i}.jpg" for i in range(3)]
    for path in paths:
        Image.fromarray(rng.integers(0, 255, (60, 700, 3)).astype(np.uint8)).save(path)
    extractor = BowSift(n_words=4).fit(paths)
    found = extractor.transform([path.read_bytes() for path in paths])
    np.testing.assert_array_equal(found, extractor.transform(paths))


def test_an_address_that_others_can_reach_needs_the_token(digits):
    model = digits.folder / "m.residuum"
    with serving("serve", model, "--port", 0, "--host", "0.0.0.0") as server:
        token = server.wait_for("^Token: ").removeprefix("Token: ")
        server.wait_for("^Warning: 0.0.0.0 can be reached")
        url = f"http://127.0.0.1:{server.port}/healthz"
        with httpx.Client(trust_env=False, timeout=PATIENCE) as http:
            assert http.get(url).status_code == 401
            assert http.get(url, headers={"authorization": "Bearer wrong"}).status_code == 401
            assert http.get(url, headers={"authorization": f"Bearer {token}"}).status_code == 200
            assert http.get(url, params={"token": token}).status_code == 200
            named = {"authorization": f"Bearer {token}", "host": f"evil.example:{server.port}"}
            assert http.get(url, headers=named).status_code == 421


def test_what_is_missing_is_named(tmp_path):
    code = "import sys; sys.modules['starlette'] = None; from residuum.cli.main import main; sys.exit(main())"
    run = subprocess.run(
        [sys.executable, "-c", code, "serve", "x"], capture_output=True, text=True, timeout=PATIENCE
    )
    assert run.returncode == 3
    assert "pip install 'residuum[explorer]'" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("workers", [1, 2])
def test_a_model_that_is_not_there_ends_with_exit_code_3(tmp_path, workers):
    with serving("serve", tmp_path / "none.residuum", "--port", 0, "--workers", workers) as server:
        assert server.process.wait(PATIENCE) == 3
        server.wait_for("there is no such model file")


def test_a_port_that_is_taken_ends_with_exit_code_2(digits):
    with serving("serve", digits.folder / "m.residuum", "--port", digits.port) as server:
        assert server.process.wait(PATIENCE) == 2
        server.wait_for("Choose another --port")


def test_an_empty_host_is_not_every_address(digits):
    run = subprocess.run(
        [sys.executable, "-m", "residuum", "serve", digits.folder / "m.residuum", "--host", ""],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert run.returncode == 2
    assert (
        run.stderr
        == "Error: --host must be an address or a name. Got an empty text; 0.0.0.0 is every address.\n"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "the body is empty: it must be a JSON object."),
        (
            '{"queries": [[1, null]]}',
            "the body: value 1 of query 0 is missing, and this model does not fill gaps.",
        ),
        ('{"queries": [[1, 2], [1, "x"]]}', 'the body: value 1 of query 1 must be a number. Got "x".'),
        (
            '{"queries": [[1, 2], [1]]}',
            "the body: each query must be a list of numbers, all of one length. Query 1 is not.",
        ),
        (
            '{"queries": [1, 2]}',
            "the body: each query must be a list of numbers, all of one length. Query 0 is not.",
        ),
        ('{"queries": [[1' + "0" * 400 + ", 2]]}", "the body: a number is too large."),
        (
            '{"queries": [[1' + "0" * 4500 + ", 2]]}",
            "the body is not JSON: a whole number has 4501 digits, and may have 4000.",
        ),
        (
            '{"queries": [[1, 2]], "names": []}',
            'the body: "names" must be a list of short texts, one for each query (1 here).',
        ),
    ],
)
def test_json_that_cannot_be_used_is_told_by_its_place(content, said):
    with pytest.raises(ResiduumError) as error:
        read_numbers(content.encode(), JSON, None, fills_gaps=False)
    assert str(error.value) == said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("1,,3\n1,2,3", "the body, line 1, column 2: the value is missing."),
        ("1,2\n3,4", "the body has 2 columns of features, the model takes 3."),
        (b"1,2,3\n\xff,2,3", "the body, line 2, byte 1: 0xff is not utf-8."),
        (
            "hello",
            "the body, line 1: one column only; none of comma, semicolon, tab and bar divides the lines. "
            "A table has at least two.",
        ),
    ],
)
def test_a_client_is_not_told_of_options_of_commands(content, said):
    content = content if isinstance(content, bytes) else content.encode()
    expected = ExpectedColumns(None, 3, None)
    with pytest.raises(ResiduumError) as error:
        read_numbers(content, CSV, expected, fills_gaps=False)
    assert str(error.value) == said
    found = read_numbers(b"1,2,3", CSV, expected, fills_gaps=False)
    assert found.notes
    assert not any("--" in note for note in found.notes)


def test_an_error_that_nobody_foresaw_is_counted_and_told_on_standard_error(capsys):
    from starlette.routing import Route

    from residuum.server.guards import Guarded
    from residuum.server.metrics import Layout, Metrics
    from residuum.server.running import Settings

    metrics = Metrics(Layout(()))

    async def broken(request):
        raise ZeroDivisionError("a secret of the server")

    async def ask():
        app = Guarded([Route("/broken", broken)], Settings(port=80).guards(metrics))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get("/broken")

    answer = asyncio.run(ask())
    assert answer.status_code == 422
    assert "secret" not in answer.text
    assert metrics.value("residuum_unexpected_errors_total") == 1
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["serve"], ["explore", "--no-browser"]])
def test_a_model_in_shards_is_refused_with_what_to_do(command, tmp_path, capsys):
    (tmp_path / "model.json").write_text("{}")
    assert main([*command, str(tmp_path)]) == 3
    assert "residuum.scale.load_model" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([[1, 2], [1]], "the body: each query must be a list, all of one length."),
        ([3, [1, 2]], "the body: each query must be a list, all of one length."),
        ([[1, "x"]], "the body: value 1 of query 0 must be a finite number, or null where it is missing."),
        (
            [[1, 10**400]],
            "the body: value 1 of query 0 must be a finite number, or null where it is missing.",
        ),
    ],
)
def test_a_model_that_fills_gaps_takes_null_and_no_other_words(rows, said):
    expected = ExpectedColumns(None, 2, None)
    found = read_numbers(b'{"queries": [[1, null], [2.5, 3]]}', JSON, expected, fills_gaps=True)
    np.testing.assert_array_equal(found.features, [[1, np.nan], [2.5, 3]])
    with pytest.raises(ResiduumError) as error:
        read_numbers(json.dumps({"queries": rows}).encode(), JSON, expected, fills_gaps=True)
    assert str(error.value) == said


def test_more_queries_than_a_request_may_have_are_refused():
    body = as_npy(np.ones((MOST_QUERIES + 1, 1), dtype=np.float32))
    with pytest.raises(ResiduumError, match=r"may have 100000 queries\. Got 100001: send fewer") as error:
        read_numbers(body, NPY, None, fills_gaps=False)
    assert error.value.status == 413
