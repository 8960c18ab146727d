"""``residuum serve`` under load, against a bare batch predict: ``python benchmarks/serve.py``.

64 clients, each with a connection of its own, send queries one after the other. The same queries are answered
in this process by one call of ``predict`` for all of them, before and after, so that both see the same
machine. Wall time includes the clients, which share the cores with the server; processor time is that of the
server's processes alone. Every label must be the one of ``predict``. The memory of the server is printed
after every tenth of the requests. Linux only: it reads /proc.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from residuum import save_model
from residuum.estimators import METHODS

TICK = os.sysconf("SC_CLK_TCK")


def data(name):
    """Training samples, labels, and queries."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return X[:1200], y[:1200], X[1200:]
    arrays = np.load(Path(os.environ["RESIDUUM_DATA"]) / "mnist.npz")
    X, y = arrays["x_train"].reshape(-1, 784), arrays["y_train"]
    return X[:3000].astype(np.float64), y[:3000], arrays["x_test"].reshape(-1, 784)[:2000]


def processes(pid):
    """A process and those that it has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(int(child) for child in children)]


def cpu_seconds(pid):
    """Processor time of a server so far."""
    fields = [Path(f"/proc/{p}/stat").read_text().rpartition(")")[2].split() for p in processes(pid)]
    return sum(int(field[11]) + int(field[12]) for field in fields) / TICK


def megabytes(pid):
    """Resident memory of a server."""
    pages = sum(int(Path(f"/proc/{p}/statm").read_text().split()[1]) for p in processes(pid))
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def request(rows, form):
    """The bytes of a request with these queries."""
    if form == "json":
        body, kind = json.dumps({"queries": rows.tolist()}).encode(), "application/json"
    else:
        stream = io.BytesIO()
        np.save(stream, rows)
        body, kind = stream.getvalue(), "application/x-npy"
    head = f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n"
    return head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body


async def client(port, requests, numbers, expected, times, errors):
    """Send requests until none is left; note how long each took, and every answer that is wrong."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in numbers:
        i = number % len(requests)
        began = time.perf_counter()
        writer.write(requests[i])
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", head).group(1))
        body = await reader.readexactly(length)
        times.append(time.perf_counter() - began)
        if not head.startswith(b"HTTP/1.1 200"):
            errors.append(body)
        elif [record["label"] for record in json.loads(body)["answers"]] != expected[i]:
            errors.append(b"a wrong label")
    writer.close()


async def load(port, pid, requests, expected, count, clients):
    """(wall seconds, processor seconds, times, errors, memory after every tenth) of so many requests."""
    times, errors, memory = [], [], [megabytes(pid)]
    numbers = iter(range(count))
    began, before = time.perf_counter(), cpu_seconds(pid)
    tasks = [
        asyncio.ensure_future(client(port, requests, numbers, expected, times, errors))
        for _ in range(clients)
    ]

    async def watch():
        while len(memory) < 10:
            await asyncio.sleep(0.05)
            if len(times) >= len(memory) * count / 10:
                memory.append(megabytes(pid))

    watching = asyncio.ensure_future(watch())
    await asyncio.gather(*tasks)
    watching.cancel()
    memory.append(megabytes(pid))
    return time.perf_counter() - began, cpu_seconds(pid) - before, times, errors, memory


def bare(model, queries, count):
    """(wall, processor) seconds per query of predict in this process, for `count` queries at least."""
    rounds = max(1, round(count / len(queries)))
    began, cpu = time.perf_counter(), time.process_time()
    for _ in range(rounds):
        model.predict(queries)
    answered = rounds * len(queries)
    return (time.perf_counter() - began) / answered, (time.process_time() - cpu) / answered


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=["digits", "mnist"], default="digits")
    parser.add_argument("--method", choices=sorted(METHODS), default="SoftNRC")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--rows", type=int, default=1, help="queries of a request")
    parser.add_argument("--format", choices=["npy", "json"], default="npy")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()

    X, y, queries = data(options.data)
    model = METHODS[options.method]().fit(X, y)
    labels = model.predict(queries)
    spans = [slice(i, i + options.rows) for i in range(0, len(queries) - options.rows + 1, options.rows)]
    requests = [request(queries[span], options.format) for span in spans]
    expected = [labels[span].tolist() for span in spans]
    answered = options.requests * options.rows
    with tempfile.TemporaryDirectory() as folder:
        path = save_model(model, Path(folder) / "model.residuum")
        command = [sys.executable, "-m", "residuum", "serve", str(path), "--port", "0"]
        server = subprocess.Popen(
            [*command, "--workers", str(options.workers)], stderr=subprocess.PIPE, text=True
        )
        try:
            port = next(int(line.split(":")[2].split()[0]) for line in server.stderr if "Serving on" in line)
            warm = load(port, server.pid, requests, expected, 4 * options.clients, options.clients)
            asyncio.run(warm)
            sample = min(answered, 4 * len(queries))
            first = bare(model, queries, sample)
            wall, cpu, times, errors, memory = asyncio.run(
                load(port, server.pid, requests, expected, options.requests, options.clients)
            )
            second = bare(model, queries, sample)
        finally:
            server.terminate()
            server.wait()
    bare_wall, bare_cpu = ((a + b) / 2 for a, b in zip(first, second))
    middle, late = np.percentile(times, [50, 99])
    found = {
        **vars(options),
        "atoms": len(X),
        "errors": len(errors),
        "queries per second": answered / wall,
        "bare queries per second": 1 / bare_wall,
        "processor ms per query": 1e3 * cpu / answered,
        "bare processor ms per query": 1e3 * bare_cpu,
        "of bare, wall time": bare_wall * answered / wall,
        "of bare, processor time": bare_cpu * answered / cpu,
        "median latency ms": 1e3 * middle,
        "99 of 100 below ms": 1e3 * late,
        "memory MB after each tenth": memory,
    }
    print(json.dumps(found, indent=1))
    if errors:
        print(f"first error: {errors[0][:300]!r}", file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
