"""``residuum doctor``: what is installed, and what a result would depend on."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from residuum.errors import ResiduumError


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def doctor(as_json: bool) -> None:
    """Show versions, BLAS, threads, CPU, the optional extras and the data home."""
    from residuum.system.folders import data_home
    from residuum.system.machine import extras, machine_facts

    facts, home = machine_facts(), data_home()
    facts["extras"] = {
        name: {"packages": packages, "install": f'python -m pip install "residuum[{name}]"'}
        for name, packages in extras().items()
    }
    facts["data_home"] = {
        "path": str(home),
        "from": "RESIDUUM_DATA" if os.environ.get("RESIDUUM_DATA") else "default",
        "exists": home.is_dir(),
        "writable": os.access(home, os.W_OK),
    }
    click.echo(json.dumps(facts, indent=2) if as_json else _text(facts))
    missing = [name for name, version in facts["packages"].items() if version is None]
    if missing:
        raise ResiduumError(f"Missing: {', '.join(missing)}. Run: python -m pip install {' '.join(missing)}")


def _text(facts: dict[str, Any]) -> str:
    home = facts["data_home"]
    state = "does not exist yet" if not home["exists"] else "writable" if home["writable"] else "read-only"
    origin = "default; RESIDUUM_DATA changes it" if home["from"] == "default" else "from RESIDUUM_DATA"
    sections = {
        f"residuum {facts['residuum']}": [],
        "Machine": [(name, facts[name]) for name in ("cpu", "cores", "platform", "python")],
        "Packages": [(name, version or "MISSING") for name, version in facts["packages"].items()],
        "Threads": [
            *((pool["user_api"], _pool_text(pool)) for pool in facts["thread_pools"]),
            ("numba", f"{facts['numba_threads']} threads"),
            *(("environment", f"{name}={value}") for name, value in facts["thread_variables"].items()),
        ],
        "Extras": [(name, _extra_text(extra)) for name, extra in facts["extras"].items()]
        or [("unknown", "residuum runs from a source tree that is not installed")],
        "Data home": [("folder", f"{home['path']} ({state}; {origin})")],
    }
    return "\n\n".join(
        "\n".join([title, *(f"  {name:<15}{value}" for name, value in rows)])
        for title, rows in sections.items()
    )


def _pool_text(pool: dict[str, Any]) -> str:
    name = " ".join(str(pool[key]) for key in ("internal_api", "version") if pool.get(key))
    kernel = f", {pool['architecture']} kernels" if pool.get("architecture") else ""
    return f"{name}, {pool['num_threads']} threads{kernel}"


def _extra_text(extra: dict[str, Any]) -> str:
    absent = ", ".join(name for name, version in extra["packages"].items() if version is None)
    return f"missing {absent}: {extra['install']}" if absent else "installed"
