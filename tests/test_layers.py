"""Imports point down: a module may import only from its own layer or a lower one."""

import ast
import subprocess
import sys
from pathlib import Path

import residuum

ROOT = Path(residuum.__file__).parent

# Lowest first. A package stands for all its modules.
LAYERS = [
    {"errors", "dictionary", "grown_dictionary", "machine", "page", "pictures"},
    {"problem"},
    {"solvers", "rules", "_kernels"},
    {"explanation", "least_squares", "calibration", "enrolment"},
    {"confidence"},
    {"base"},
    {"classifiers"},
    {"selection", "features", "datasets", "scale", "storage", "owndata"},
    {"benchmark", "modelling"},
    {"experiments", "explorer", "explaining", "explain_page"},
    {"commands"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def modules():
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts != ("__init__",):
            yield path, parts[0]


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("residuum"):
            parts = node.module.split(".")
            yield from ([parts[1]] if len(parts) > 1 else [alias.name for alias in node.names])
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("residuum."))


def test_every_module_has_a_layer():
    assert {top for _, top in modules()} <= set(LEVEL)


def test_no_import_points_up():
    upward = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path, top in modules()
        for name in imported(path)
        if name in LEVEL and LEVEL[name] > LEVEL[top]
    ]
    assert not upward


def test_importing_the_package_stays_light():
    heavy = ["torch", "dask", "cv2", "matplotlib", "starlette", "numba"]
    code = f"import sys, residuum; from residuum import NRC; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
