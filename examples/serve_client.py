"""A client of ``residuum serve`` in ten lines, with nothing but the standard library.

    residuum serve digits.residuum
    python examples/serve_client.py http://127.0.0.1:8000

Without an address, a model of the digits of scikit-learn is fitted and served here first.
"""

import json
import subprocess
import sys
import tempfile
import urllib.request

from sklearn.datasets import load_digits

X, y = load_digits(return_X_y=True)


def show_answers(address: str) -> None:
    body = json.dumps({"queries": X[-5:].tolist(), "names": [f"digit {i}" for i in range(5)]}).encode()
    request = urllib.request.Request(f"{address}/v1/predict", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        for record in json.load(answer)["answers"]:
            print(f"{record['name']}: {record['label']}, then {record['runner_up']}", end="")
            print(f", margin {record['margin']:.3f}")


if len(sys.argv) > 1:
    show_answers(sys.argv[1])
else:
    from residuum import CRC, save_model

    with tempfile.TemporaryDirectory() as folder:
        path = save_model(CRC().fit(X[:-5], y[:-5]), f"{folder}/digits.residuum")
        command = [sys.executable, "-m", "residuum", "serve", str(path), "--port", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            line = next(line for line in server.stderr if line.startswith("Serving on "))
            try:
                show_answers(line.split()[2])
            finally:
                server.terminate()
