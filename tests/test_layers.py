"""Rooms and the doors between them: every import from one room to another is declared here."""

import ast
import subprocess
import sys
from pathlib import Path

import residuum

ROOT = Path(residuum.__file__).parent

IDEA = {"errors", "plain_numbers", "dictionary", "change", "problem", "rules"}
# Room -> the rooms it may import. A room is a package, or a module that stands beside the packages.
DOORS = {
    "errors": set(),
    "plain_numbers": set(),
    "system": {"errors"},
    "dictionary": set(),
    "change": {"dictionary"},
    "problem": {"dictionary"},
    "rules": {"dictionary", "system"},
    "solvers": IDEA | {"system"},
    "lstsq": {"plain_numbers", "problem", "solvers"},
    "regression": {"plain_numbers", "lstsq"},
    "estimators": IDEA | {"solvers", "system", "reports"},
    "selection": IDEA | {"solvers", "system", "estimators"},
    "features": {"errors", "plain_numbers", "dictionary", "system"},
    "inputs": {"errors", "system", "features"},
    "models": IDEA | {"system", "estimators", "selection", "features", "inputs"},
    "scale": IDEA | {"system", "solvers", "estimators", "inputs", "models"},
    "reports": {"errors", "system"},
    "explain": {"errors", "dictionary", "system", "estimators", "features", "inputs", "models", "reports"},
    "experiments": IDEA
    | {"system", "solvers", "lstsq", "estimators", "selection", "features", "inputs", "models", "reports"},
    "paper": IDEA
    | {"system", "solvers", "estimators", "selection", "features", "inputs", "models", "reports"}
    | {"explain", "experiments"},
    "server": {"errors", "system", "estimators", "features", "inputs", "models", "explain"},
    "explorer": IDEA
    | {"system", "solvers", "estimators", "features", "inputs", "models", "reports", "explain", "server"},
    "cli": IDEA
    | {"system", "features", "inputs", "models", "reports", "explain", "experiments", "server"}
    | {"explorer", "scale"},
    "__init__": {"system", "estimators", "selection", "features", "lstsq", "regression", "models"},
    "__main__": {"cli"},
}
# Only these commands may import `paper`, and only the main module of the command imports other commands.
PAPER_COMMANDS = {"cli/reproduce.py", "cli/results.py", "cli/data.py"}
SHARED_BY_COMMANDS = {"main", "options", "input_output", "training_data"}


def modules():
    for path in sorted(ROOT.rglob("*.py")):
        yield path.relative_to(ROOT)


def room(module):
    return module.parts[0].removesuffix(".py")


def imported(module):
    """Dotted names below residuum that a module imports anywhere, lazily and relatively too."""
    package = ("residuum", *module.parts[:-1])
    for node in ast.walk(ast.parse((ROOT / module).read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("residuum."):
                    yield tuple(alias.name.split(".")[1:])
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            start = (*base, *(node.module or "").split(".")) if node.module else base
            if start[:1] != ("residuum",):
                continue
            for alias in node.names:
                name = (*start[1:], alias.name)
                yield name if is_module(name) else start[1:] or name


def is_module(name):
    path = ROOT.joinpath(*name)
    return path.is_dir() or path.with_suffix(".py").is_file()


def test_every_room_is_declared_and_every_declared_room_exists():
    assert {room(module) for module in modules()} == set(DOORS)


def test_no_room_imports_another_without_a_door():
    undeclared = {
        f"{module} imports {'.'.join(name)}"
        for module in modules()
        for name in imported(module)
        if is_module(name[:1])
        and name[0] not in {room(module), *DOORS[room(module)]}
        and not (module.as_posix() in PAPER_COMMANDS and name[0] == "paper")
    }
    assert not undeclared


def test_the_doors_have_no_circle():
    done, waiting = set(), dict(DOORS)
    while ready := {name for name, doors in waiting.items() if doors <= done}:
        done |= ready
        waiting = {name: doors for name, doors in waiting.items() if name not in done}
    assert not waiting


def test_no_private_module_is_imported_from_another_package():
    private = {
        f"{module} imports {'.'.join(name)}"
        for module in modules()
        for name in imported(module)
        if any(part.startswith("_") and not part.startswith("__") for part in name)
        and tuple(name[:-1])[: len(module.parts) - 1] != module.parts[:-1]
    }
    assert not private


def test_no_command_imports_another():
    sideways = {
        f"{module} imports {'.'.join(name)}"
        for module in modules()
        if room(module) == "cli" and module.stem != "main"
        for name in imported(module)
        if name[0] == "cli" and name[1:2] and name[1] not in SHARED_BY_COMMANDS
    }
    assert not sideways


def test_importing_the_package_stays_light():
    heavy = ["torch", "dask", "distributed", "cv2", "matplotlib", "starlette", "numba"]
    code = f"import sys, residuum; from residuum import NRC; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
