"""Workers, signals and batching: nothing is lost that could be kept."""

import asyncio
import contextlib
import os
import signal
import socket
import threading
from pathlib import Path

import httpx
import numpy as np
import pytest
from serving import PATIENCE, serving

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from residuum import CRC, save_model
from residuum.errors import DataError, ResiduumError
from residuum.server.batching import Lane
from residuum.server.errors import RequestError
from residuum.server.guards import Guarded, Guards, Limits, changes_state
from residuum.server.metrics import Layout, Metrics
from residuum.server.running import TOKEN_VARIABLE, Settings, _Reloading, bind, serve
from residuum.server.workers import _noted_signals, supervise

WIDTH = 6
QUERY = {"queries": [[1.0, 2, 3, 4, 5, 6]]}


def write_model(path, label):
    """A model of one class, put in its place at once; every answer is `label`."""
    rng = np.random.default_rng(0)
    save_model(CRC().fit(rng.normal(size=(8, WIDTH)), [label] * 8), path)


@pytest.fixture
def model(tmp_path):
    write_model(tmp_path / "m.residuum", "first")
    return tmp_path / "m.residuum"


class Load:
    """Clients that ask again and again; `labels` are what they were answered, `errors` what failed."""

    def __init__(self, server, clients, *, keep_alive=True):
        self.labels, self.errors = [], []
        self._stop, self._news = threading.Event(), threading.Condition()
        self._threads = [
            threading.Thread(target=self._ask, args=(server, keep_alive)) for _ in range(clients)
        ]

    def _ask(self, server, keep_alive):
        with server.client(headers={} if keep_alive else {"connection": "close"}) as http:
            while not self._stop.is_set():
                try:
                    answer = http.post("/v1/predict", json=QUERY)
                    assert answer.status_code == 200, answer.text
                    found = answer.json()["answers"][0]["label"]
                except Exception as error:
                    self.errors.append(repr(error))
                    found = "error"
                with self._news:
                    self.labels.append(found)
                    self._news.notify_all()

    def wait(self, test):
        with self._news:
            assert self._news.wait_for(test, PATIENCE)

    def more(self, count):
        """Wait for so many more answers."""
        goal = len(self.labels) + count
        self.wait(lambda: len(self.labels) >= goal)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_model_is_read_again_under_load_without_losing_a_request(model, workers):
    with serving("serve", model, "--port", 0, "--workers", workers) as server:
        server.wait_for("Serving on")
        with Load(server, 6) as load:
            load.more(20)
            write_model(model, "second")
            server.process.send_signal(signal.SIGHUP)
            for _ in range(workers):
                server.wait_for("Read m.residuum again")
            load.wait(lambda: "second" in load.labels)
            while server.lines.count("Read m.residuum again.") < workers:
                load.more(1)
            load.more(12)  # six of them may have begun before
            assert set(load.labels[-6:]) == {"second"}
            model.write_bytes(b"damaged")
            server.process.send_signal(signal.SIGHUP)
            server.wait_for("Warning: what was served before is still served")
            load.more(20)
        assert not load.errors
        assert set(load.labels) == {"first", "second"}
        assert server.end() == 0


def worker_processes(server):
    """Process ids of the workers."""
    task = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    children = [int(child) for child in task.read_text().split()]
    return [child for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


@contextlib.contextmanager
def stopped(process):
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="asks the kernel of Linux for the workers")
def test_a_worker_that_is_killed_takes_no_request_of_another_with_it(model):
    with serving("serve", model, "--port", 0, "--workers", 2) as server, contextlib.ExitStack() as stack:
        port = server.port
        victim, other = worker_processes(server)

        def connected():
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))
            ask(connection)
            return connection

        with stopped(other):
            lost = connected()
        with stopped(victim):
            kept = [connected() for _ in range(3)]
        for connection in kept:
            connection.sendall(raw_request()[:-10])  # these requests have begun
        with Load(server, 4, keep_alive=False) as load:
            load.more(10)
            os.kill(victim, signal.SIGKILL)
            server.wait_for("it is started again")
            load.more(40)
            for connection in kept:
                connection.sendall(raw_request()[-10:])
                assert read_status(connection) == 200
                ask(connection)
        # Only requests that the killed worker had accepted can be lost: one for each client at most.
        assert len(load.errors) <= 4, load.errors
        with pytest.raises(ConnectionError):
            ask(lost)
        assert victim not in worker_processes(server)
        assert len(worker_processes(server)) == 2
        assert server.end() == 0


def raw_request():
    body = httpx.Request("POST", "http://x/", json=QUERY).content
    kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\n{kind}".encode() + body


def read_status(connection):
    stream = connection.makefile("rb")
    status = int(stream.readline().split()[1])
    headers = dict(line.decode().lower().strip().split(": ", 1) for line in iter(stream.readline, b"\r\n"))
    stream.read(int(headers["content-length"]))
    return status


def ask(connection):
    connection.sendall(raw_request())
    try:
        assert read_status(connection) == 200
    except IndexError:
        raise ConnectionError("closed") from None


@pytest.mark.parametrize("workers", [1, 2])
def test_a_request_that_has_begun_is_answered_after_sigterm(model, workers):
    with serving("serve", model, "--port", 0, "--workers", workers) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
            ask(connection)
            connection.sendall(raw_request()[:-10])
            with server.client() as http:  # the server has read what was sent before
                assert http.get("/healthz").status_code == 200
            server.process.send_signal(signal.SIGTERM)
            wait_until_closed(server.port)
            connection.sendall(raw_request()[-10:])
            assert read_status(connection) == 200
        assert server.process.wait(PATIENCE) == 0
        assert not [line for line in server.lines if "Traceback" in line or "rror" in line]


def wait_until_closed(port):
    with contextlib.suppress(ConnectionError):
        while True:
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_ends_with_exit_code_130(model, workers):
    with serving("serve", model, "--port", 0, "--workers", workers) as server:
        server.wait_for("Serving on")
        assert server.end(signal.SIGINT) == 130
        assert server.lines[-2:] == ["Interrupted.", "(end)"] or "Interrupted." in server.lines


def test_workers_end_when_their_supervisor_is_killed(model):
    with serving("serve", model, "--port", 0, "--workers", 2) as server:
        port = server.port
        server.process.kill()
        server.process.wait(PATIENCE)
        wait_until_closed(port)


# Batching, without a server.


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, PATIENCE))


class Gate:
    """Work that waits in the thread until it is let through; `calls` are the items of every call."""

    def __init__(self):
        self.begun, self.open = threading.Event(), threading.Event()
        self.calls = []

    def block(self):
        self.begun.set()
        assert self.open.wait(PATIENCE)

    def work(self, items):
        self.calls.append(list(items))
        if "bad" in items:
            raise ValueError("bad item")
        return [f"answer to {item}" for item in items]


async def behind(gate, lane):
    """Block the thread; return the task that blocks it."""
    task = asyncio.ensure_future(lane.alone(gate.block))
    await asyncio.to_thread(gate.begun.wait, PATIENCE)
    return task


async def settled():
    for _ in range(20):
        await asyncio.sleep(0)


def test_what_waits_is_computed_in_one_call():
    async def story():
        gate, lane = Gate(), Lane()
        first = await behind(gate, lane)
        tasks = [asyncio.ensure_future(lane.together(gate.work, i, key="k")) for i in range(10)]
        other = asyncio.ensure_future(lane.together(gate.work, "x", key="other"))
        await settled()
        gate.open.set()
        await first
        assert await asyncio.gather(*tasks) == [f"answer to {i}" for i in range(10)]
        assert await other == "answer to x"
        assert gate.calls == [list(range(10)), ["x"]]
        await lane.close()

    run(story())


def test_one_bad_item_spoils_no_other():
    async def story():
        gate, lane = Gate(), Lane()
        first = await behind(gate, lane)
        items = ["a", "bad", "b"]
        tasks = [asyncio.ensure_future(lane.together(gate.work, item)) for item in items]
        await settled()
        gate.open.set()
        await first
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert found[0::2] == ["answer to a", "answer to b"]
        assert isinstance(found[1], ValueError)
        await lane.close()

    run(story())


def test_work_that_forgets_a_result_stops_nobody_else():
    async def story():
        lane = Lane()
        with pytest.raises(RuntimeError, match="0 results for 1 items"):
            await lane.together(lambda items: [], "x")
        assert await lane.alone(int, "7") == 7
        await lane.close()

    run(story())


def test_work_of_a_client_that_has_gone_is_never_begun():
    async def story():
        gate, lane = Gate(), Lane()
        first = await behind(gate, lane)
        tasks = [asyncio.ensure_future(lane.together(gate.work, item)) for item in ("gone", "here")]
        await settled()
        tasks[0].cancel()
        await settled()
        gate.open.set()
        await first
        assert await tasks[1] == "answer to here"
        assert gate.calls == [["here"]]
        await lane.close()

    run(story())


def test_a_client_that_goes_while_it_is_answered_stops_nobody_else():
    async def story():
        gate, lane = Gate(), Lane()

        def slow(items):
            gate.block()
            return gate.work(items)

        tasks = [asyncio.ensure_future(lane.together(slow, item)) for item in ("gone", "here")]
        await asyncio.to_thread(gate.begun.wait, PATIENCE)
        tasks[0].cancel()
        await settled()
        gate.open.set()
        assert await tasks[1] == "answer to here"
        assert gate.calls == [["gone", "here"]]
        await lane.close()

    run(story())


def test_the_only_client_goes_before_its_turn_begins():
    async def story():
        gate, lane = Gate(), Lane()
        gone = asyncio.ensure_future(lane.together(gate.work, "gone"))
        await settled()
        gone.cancel()
        await settled()
        lane._arrived.set()  # as when the 5 ms are over
        await settled()
        assert await lane.together(gate.work, "here") == "answer to here"
        assert gate.calls == [["here"]]
        await lane.close()

    run(story())


def test_a_full_queue_refuses():
    async def story():
        gate, lane = Gate(), Lane(most_waiting=3)
        first = await behind(gate, lane)
        tasks = [asyncio.ensure_future(lane.together(gate.work, i)) for i in range(3)]
        await settled()
        with pytest.raises(RequestError, match="busy") as refused:
            await lane.together(gate.work, 3)
        assert refused.value.status == 429
        assert refused.value.retry == 1
        gate.open.set()
        await asyncio.gather(first, *tasks)
        await lane.close()

    run(story())


def test_a_large_request_takes_turns_with_small_ones():
    async def story():
        gate, lane = Gate(), Lane()
        first = await behind(gate, lane)
        calls = []

        def work(parts):
            calls.append([len(part) for part in parts])
            return parts

        large = asyncio.ensure_future(lane.by_turns(work, np.arange(64 * 5), key="rows"))
        await settled()
        small = asyncio.ensure_future(lane.together(work, np.arange(3), rows=3, key="rows"))
        await settled()
        lane.rows = 64
        gate.open.set()
        await first
        assert len(await small) == 3
        assert calls[0] == [64], "the large one was not cut into pieces"
        assert 3 in calls[1], "the small one waited for more than one turn of the large one"
        assert np.concatenate(await large).tolist() == list(range(64 * 5))
        await lane.close()

    run(story())


def test_a_request_waits_for_those_that_are_being_read():
    """Without `expected` it waits 5 ms; with it, until all that are being handled have arrived."""

    async def story():
        gate, lane = Gate(), Lane(expected=lambda: 2)
        tasks = [asyncio.ensure_future(lane.together(gate.work, i)) for i in range(2)]
        await asyncio.gather(*tasks)
        assert gate.calls == [[0, 1]]
        await lane.close()

    run(story())


# The guards, without a socket.


async def asked(app, *, body=b"{}", headers=(), method="POST", path="/", receive=None):
    """Status, headers and body of the answer to one request."""
    sent = []
    given = {b"host": b"localhost:80", b"content-type": b"application/json", **dict(headers)}

    async def once():
        return {"type": "http.request", "body": body, "more_body": False}

    async def usual():
        if not usual.done:
            usual.done = True
            return await once()
        await asyncio.Event().wait()

    usual.done = False

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": list(given.items()), "root_path": "", "scheme": "http", "server": ("localhost", 80),
    }  # fmt: skip
    await app(scope, receive or usual, send)
    if not sent:
        return 0, {}, b""
    return sent[0]["status"], dict(sent[0]["headers"]), b"".join(m.get("body", b"") for m in sent[1:])


def guarded(endpoint, **guards):
    return Guarded([Route("/", endpoint, methods=["POST", "GET"])], Guards(**guards))


async def fine(request):
    return Response(await request.body())


def test_an_error_of_any_kind_is_a_sentence_and_no_5xx(capsys):
    async def story(error):
        async def fail(request):
            raise error

        return await asked(guarded(fail))

    for error in (
        ZeroDivisionError("secret"),
        MemoryError(),
        RecursionError(),
        KeyError("x"),
        OSError(5, "disk"),
    ):
        status, headers, body = run(story(error))
        assert 400 <= status < 500
        assert b"secret" not in body
        assert headers[b"content-type"] == b"application/json"
    assert "Traceback" not in capsys.readouterr().err


def test_whoever_asks_for_tracebacks_gets_them(capsys):
    async def fail(request):
        raise ZeroDivisionError("secret")

    status, _, body = run(asked(guarded(fail, debug=True)))
    assert status == 422
    assert b"secret" not in body
    assert "ZeroDivisionError: secret" in capsys.readouterr().err


def test_an_answer_that_has_begun_is_not_followed_by_another():
    async def pieces():
        yield b"begun"
        raise ZeroDivisionError

    async def fail(request):
        return StreamingResponse(pieces())

    assert run(asked(guarded(fail)))[::2] == (200, b"begun")


def test_an_endpoint_that_reads_on_finds_its_client_gone():
    async def listen(request):
        await request.body()
        return Response((await request.receive())["type"])

    assert run(asked(guarded(listen)))[2] == b"http.disconnect"


def test_only_so_much_of_a_refused_body_is_thrown_away():
    read = []

    async def endless():
        read.append(20)
        return {"type": "http.request", "body": b"x" * 20, "more_body": True}

    status, headers, _ = run(asked(guarded(fine, limits=Limits(body=100)), receive=endless))
    assert status == 413
    assert headers[b"connection"] == b"close"
    assert sum(read) <= 1000


def test_what_is_no_request_is_left_alone():
    async def story(kind):
        sent = []

        async def send(message):
            sent.append(message)

        await guarded(fine)({"type": kind}, None, send)
        return sent

    assert run(story("websocket")) == [{"type": "websocket.close", "code": 1008}]
    assert run(story("lifespan")) == []


def test_a_request_that_takes_too_long_is_refused():
    async def forever(request):
        await asyncio.Event().wait()

    async def silent():
        await asyncio.Event().wait()

    limits = Limits(seconds=0.01)
    for app, receive in ((guarded(forever, limits=limits), None), (guarded(fine, limits=limits), silent)):
        status, _, body = run(asked(app, receive=receive))
        assert status == 408
        assert b"took longer than 0.01 seconds" in body


def test_a_request_that_is_cut_off_by_the_end_of_the_server_gets_no_5xx():
    async def story():
        begun = asyncio.Event()

        async def forever(request):
            begun.set()
            await asyncio.Event().wait()

        task = asyncio.ensure_future(asked(guarded(forever)))
        await begun.wait()
        task.cancel()
        return await task

    assert run(story())[0] == 408


def test_an_endpoint_is_cancelled_when_its_client_goes():
    cancelled = []

    async def story():
        begun = asyncio.Event()

        async def endpoint(request):
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(True)
                raise

        messages = iter(["body"])

        async def receive():
            if next(messages, None):
                return {"type": "http.request", "body": b"{}", "more_body": False}
            await begun.wait()
            return {"type": "http.disconnect"}

        app = guarded(endpoint)
        assert (await asked(app, receive=receive))[0] == 0
        assert app.in_flight == 0

    run(story())
    assert cancelled


def test_a_body_is_counted_while_it_is_read():
    async def story(chunks, **limits):
        waiting = list(chunks)

        async def receive():
            piece = waiting.pop(0) if waiting else b""
            return {"type": "http.request", "body": piece, "more_body": bool(waiting)}

        app = guarded(fine, limits=Limits(**limits))
        found = await asked(app, receive=receive)
        assert app._held == 0
        return found[0]

    assert run(story([b"x" * 50] * 2, body=100)) == 200
    assert run(story([b"x" * 50] * 3, body=100)) == 413
    assert run(story([b"x" * 50] * 3, body=1000, bodies=120)) == 429


def test_more_requests_than_allowed_are_refused_with_retry_after():
    async def story():
        begun, go = asyncio.Event(), asyncio.Event()

        async def wait(request):
            begun.set()
            await go.wait()
            return Response("done")

        app = guarded(wait, limits=Limits(requests=1))
        first = asyncio.ensure_future(asked(app))
        await begun.wait()
        status, headers, _ = await asked(app)
        assert status == 429
        assert headers[b"retry-after"] == b"1"
        go.set()
        assert (await first)[0] == 200

    run(story())


def test_state_changing_calls_need_the_token():
    async def story():
        app = guarded(fine, token="right", needs_token=changes_state)
        bearer = [(b"authorization", b"Bearer right")]
        wrong = [(b"authorization", b"Bearer wr\xf6ng")]
        return [
            (await asked(app))[0],
            (await asked(app, headers=wrong))[0],
            (await asked(app, headers=bearer))[0],
            (await asked(app, method="GET"))[0],
        ]

    assert run(story()) == [401, 401, 200, 200]


def test_headers_that_never_end_are_given_up(monkeypatch):
    from residuum.server import connections

    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.05)

    async def story():
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
            server = connections.server_of(guarded(fine, port=port), grace=1)
            running = asyncio.ensure_future(server.serve(sockets=[listening]))
            while not server.started:
                await asyncio.sleep(0)
            found = []
            for sent in (b"", b"POST / HTTP/1.1\r\nHost: local", b"not http at all\r\n\r\n"):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(sent)
                found.append((await reader.read()).partition(b"\r\n"))
                writer.close()
            server.should_exit = True
            await running
        return found

    silent, slow, wrong = run(story())
    assert silent[0] == b""
    assert slow[0].startswith(b"HTTP/1.1 408")
    assert wrong[0].startswith(b"HTTP/1.1 400")
    assert b'{"error": ' in slow[2]
    assert b'{"error": ' in wrong[2]


def test_metrics_add_up_over_workers_and_end_with_the_gauges_of_a_dead_one():
    layout = Layout(("/a",))
    rows = [0.0] * (2 * len(layout))
    one, two = Metrics(layout, rows, 0), Metrics(layout, rows, 1)
    one.observe("/a", 200, 0.007)
    two.observe("/a", 200, 3.0)
    two.observe('/evil"}', 299, 1e9)
    two.set("residuum_waiting", 5)
    again = Metrics(layout, rows, 1)  # the worker was started again
    text = again.text()
    assert 'residuum_requests_total{path="/a",status="200"} 2' in text
    assert 'residuum_requests_total{path="other",status="other"} 1' in text
    assert 'residuum_request_seconds_bucket{path="/a",le="0.01"} 1' in text
    assert 'residuum_request_seconds_count{path="/a"} 2' in text
    assert "evil" not in text
    assert "\nresiduum_waiting 0\n" in text


# Signals and workers, in this process.


def test_a_second_signal_reads_the_model_once_more_and_not_at_the_same_time(capsys):
    async def story():
        gate, read = Gate(), []

        class Slow:
            def reload(self):
                read.append(len(read))
                gate.block()
                return f"Read {len(read)}."

        metrics = Metrics(Layout(()))
        reloading = _Reloading(Slow(), metrics)
        reloading.begin()
        await asyncio.to_thread(gate.begun.wait, PATIENCE)
        reloading.begin()
        reloading.begin()
        assert read == [0]
        gate.open.set()
        await reloading._task
        assert metrics.value("residuum_reloads_total") == 2

    run(story())
    assert capsys.readouterr().err == "Read 1.\nRead 2.\n"


def test_signals_are_noted_and_then_what_they_were_before():
    def other(number, frame):
        raise AssertionError

    before = {number: signal.signal(number, other) for number in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGINT] = signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # as for `residuum serve &` in a script
    try:
        with _noted_signals() as (noted, bell):
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
                signal.raise_signal(number)
            assert noted == [signal.SIGHUP, signal.SIGTERM]
            assert bell.recv(9) == bytes([signal.SIGHUP, signal.SIGTERM])
        assert signal.getsignal(signal.SIGTERM) is signal.getsignal(signal.SIGHUP) is other
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def fail_to_build(worker):
    raise DataError("there is nothing to serve")


@pytest.mark.parametrize("token", [None, "from the environment"])
def test_a_token_that_was_given_is_not_printed(token, monkeypatch, capsys):
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    if token:
        monkeypatch.setenv(TOKEN_VARIABLE, token)
    settings = Settings(host="0.0.0.0", port=0)
    with pytest.raises(DataError, match="nothing to serve"):
        serve(fail_to_build, settings)
    said = capsys.readouterr().err
    assert "0.0.0.0 can be reached from other machines" in said
    assert (f"Token: {settings.token}" in said) == (token is None)
    assert Settings(host="localhost").is_loopback


def end_early(worker):
    os._exit(7)


def test_a_worker_that_ends_before_it_can_serve_is_told():
    settings = Settings(port=0, workers=1)
    with (
        bind(settings) as listening,
        pytest.raises(ResiduumError, match=r"before it could serve, .* code 7\."),
    ):
        supervise(end_early, settings, listening, lambda: None)
