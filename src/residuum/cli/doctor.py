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
    from residuum.system.machine import extras, machine_facts

    facts = machine_facts()
    facts["extras"] = {
        name: {"packages": packages, "complete": all(packages.values()), "install": _install_line(name)}
        for name, packages in extras().items()
    }
    facts["data_home"] = _data_home()
    click.echo(json.dumps(facts, indent=2) if as_json else "\n".join(_lines(facts)))
    missing = [name for name, version in facts["packages"].items() if version is None]
    if missing:
        raise ResiduumError(f"Missing: {', '.join(missing)}. Run: python -m pip install {' '.join(missing)}")


def _install_line(extra: str) -> str:
    return f'python -m pip install "residuum[{extra}]"'


def _data_home() -> dict[str, Any]:
    from residuum.system.folders import data_home

    home = data_home()
    return {
        "path": str(home),
        "from": "RESIDUUM_DATA" if os.environ.get("RESIDUUM_DATA") else "default",
        "exists": home.is_dir(),
        "writable": os.access(home, os.W_OK),
    }


def _lines(facts: dict[str, Any]) -> list[str]:
    def row(name: str, value: Any) -> str:
        return f"  {name:<15}{value}"

    lines = [f"residuum {facts['residuum']}", "", "Machine"]
    lines += [row("cpu", facts["cpu"]), row("cores", facts["cores"])]
    lines += [row("platform", facts["platform"]), row("python", facts["python"])]
    lines += ["", "Packages"]
    lines += [row(name, version or "MISSING") for name, version in facts["packages"].items()]
    lines += ["", "Threads"]
    for pool in facts["thread_pools"]:
        name = " ".join(str(pool[k]) for k in ("internal_api", "version") if pool.get(k))
        kernel = f", {pool['architecture']} kernels" if pool.get("architecture") else ""
        lines.append(row(pool["user_api"], f"{name}, {pool['num_threads']} threads{kernel}"))
    lines.append(row("numba", f"{facts['numba_threads']} threads"))
    lines += [row("environment", f"{k}={v}") for k, v in facts["thread_variables"].items()]
    lines += ["", "Extras"]
    for name, extra in facts["extras"].items():
        absent = [package for package, version in extra["packages"].items() if version is None]
        state = "installed" if extra["complete"] else f"missing {', '.join(absent)}: {extra['install']}"
        lines.append(row(name, state))
    if not facts["extras"]:
        lines.append("  unknown: residuum runs from a source tree that is not installed")
    lines += ["", "Data home"]
    home = facts["data_home"]
    state = "does not exist yet" if not home["exists"] else "writable" if home["writable"] else "read-only"
    origin = "from RESIDUUM_DATA" if home["from"] != "default" else "default; RESIDUUM_DATA changes it"
    lines.append(f"  {home['path']} ({state}; {origin})")
    return lines
