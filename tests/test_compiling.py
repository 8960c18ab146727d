"""Compiled kernels: kept where a folder can be written, announced when compiled, and no signal is lost."""

import os
import subprocess
import sys

import pytest

from residuum.system.compiling import forget_outdated

CALL = """
import numpy as np
from residuum.solvers.active_set.kernels import dot
print(dot(np.ones(3), np.ones(3)))
"""


def call(**environment):
    done = subprocess.run(
        [sys.executable, "-c", CALL],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "3.0"
    return done.stderr


@pytest.mark.parametrize("age", [-1000, 1000])
def test_compiling_is_announced_when_it_happens_and_only_then(tmp_path, age):
    first = call(NUMBA_CACHE_DIR=str(tmp_path))
    assert first.count("residuum: compiling a solver") == 1
    assert "kept for later runs" in first
    for file in tmp_path.rglob("*.nb*"):  # numba does not compare times of its own files
        os.utime(file, (file.stat().st_mtime + age,) * 2)
    assert call(NUMBA_CACHE_DIR=str(tmp_path)) == ""


def test_without_any_folder_to_write_everything_is_compiled_and_works():
    said = call(NUMBA_CACHE_DIR="/dev/null/cache", NUMBA_CACHE_LOCATOR_CLASSES="UserProvidedCacheLocator")
    assert "residuum: compiling a solver" in said
    assert "Set NUMBA_CACHE_DIR" in said


def test_functions_of_others_are_not_announced():
    code = "import residuum.system.compiling, numba; print(numba.njit(lambda x: x + 1)(2.0))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("3.0", "")


def test_functions_without_a_module_compile():
    """`exec` makes such functions, as numba does for the constructor of a compiled class."""
    code = (
        "import residuum.system.compiling, numba\n"
        "found = {}\n"
        "exec('def f(x): return x + 1', found)\n"
        "print(numba.njit(found['f'])(2.0))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("3.0", "")


INTERRUPTED = """
import os, signal, sys
import numpy as np
from residuum.solvers.active_set.kernels import dot
number = signal.Signals[sys.argv[1]]
signal.signal(number, signal.default_int_handler)
before = signal.getsignal(number), sys.unraisablehook
sent = []

def send(frame, event, arg):  # LLVM asks Python for machine code, and drops what Python raises there
    if event == "call" and frame.f_code.co_name == "_raw_object_cache_getbuffer" and not sent:
        sent.append(number)
        os.kill(os.getpid(), number)

sys.setprofile(send)
try:
    dot(np.ones(3), np.ones(3))
except KeyboardInterrupt:
    print("interrupted")
sys.setprofile(None)
assert sent, "the moment never came"
assert before == (signal.getsignal(number), sys.unraisablehook)
print(dot(np.ones(3), np.ones(3)))
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_that_arrives_while_code_is_loaded_is_not_lost(name):
    call()  # compiles, if that was never done
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, name], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["interrupted", "3.0"]
    assert done.stderr == ""


def test_what_was_compiled_before_a_source_changed_is_deleted(tmp_path):
    """Numba looks at the file of the function that is called, not at those of the functions it calls."""
    kernels = tmp_path / "kernels"
    (kernels / "__pycache__").mkdir(parents=True)
    caller, callee, page = kernels / "caller.py", kernels / "callee.py", tmp_path / "page.py"
    index = kernels / "__pycache__" / "caller.run-1.py311.nbi"
    for when, path in enumerate((caller, callee, index, page)):  # in this order of time
        path.touch()
        os.utime(path, (1000 + when, 1000 + when))
    forget_outdated(tmp_path)
    assert index.is_file()  # only a file that compiles nothing is newer
    os.utime(callee, (2000, 2000))
    forget_outdated(tmp_path)
    assert not index.is_file()


def test_a_source_from_the_future_and_a_vanishing_file_keep_nothing_from_its_place(tmp_path):
    kept = tmp_path / "__pycache__"
    kept.mkdir()
    source, old, new = tmp_path / "kernel.py", kept / "old.nbi", kept / "new.nbi"
    gone = kept / "gone.nbi"  # is listed, and another process has deleted what it points to
    gone.symlink_to(kept / "deleted")
    later = tmp_path / "clock.py"
    for path, when in ((old, 1000), (source, 2000), (new, 3000), (later, 2**40)):
        path.touch()
        os.utime(path, (when, when))
    forget_outdated(tmp_path)
    assert not old.is_file()
    assert new.is_file()
