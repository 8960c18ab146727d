"""Facts about the machine and the software that a result depends on."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from residuum import __version__
from residuum.errors import UsageError

PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "joblib",
    "threadpoolctl",
    "numba",
    "click",
    "rich",
    "matplotlib",
)
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


def machine_facts() -> dict[str, Any]:
    """Versions, CPU, BLAS and threads as plain JSON; the same on every call with the same settings."""
    import numba

    # Asking numba loads its threading layer, which is then among the pools below on every call.
    numba_threads = numba.get_num_threads()
    return {
        "residuum": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": cpu_model(),
        "cores": usable_cores(),
        "packages": {name: installed_version(name) for name in PACKAGES},
        "thread_pools": thread_pools(),
        "numba_threads": numba_threads,
        "thread_variables": {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ},
    }


def cpu_model() -> str:
    """Name of the processor."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(errors="replace"), re.MULTILINE)
        if found:
            return found[1].strip()
    return platform.processor() or platform.machine() or "unknown"


def usable_cores() -> int:
    """Logical cores this process may use, which in a container can be fewer than the machine has."""
    import joblib

    return int(joblib.cpu_count())


def free_memory() -> int | None:
    """Bytes of memory that could be used without swapping, where the system tells."""
    meminfo = Path("/proc/meminfo")
    if not meminfo.is_file():
        return None
    found = re.search(r"^MemAvailable:\s*(\d+) kB$", meminfo.read_text(errors="replace"), re.MULTILINE)
    return 1024 * int(found[1]) if found else None


def installed_version(package: str) -> str | None:
    """Version of an installed package without importing it, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def thread_pools() -> list[dict[str, Any]]:
    """The BLAS and OpenMP libraries in use, with their threads."""
    # Both imports load libraries that are then listed.
    import scipy.linalg  # noqa: F401
    import sklearn.utils  # noqa: F401
    from threadpoolctl import threadpool_info

    keys = ("user_api", "internal_api", "version", "architecture", "threading_layer", "num_threads")
    pools = [{key: pool[key] for key in keys if key in pool} for pool in threadpool_info()]
    unique = {repr(sorted(pool.items(), key=str)): pool for pool in pools}
    return [unique[key] for key in sorted(unique)]


def extras() -> dict[str, dict[str, str | None]]:
    """Each optional extra: the packages it brings and their installed versions (None: missing)."""
    try:
        requirements = metadata.requires("residuum") or []
    except metadata.PackageNotFoundError:
        return {}
    found: dict[str, dict[str, str | None]] = {}
    for requirement in requirements:
        extra = re.search(r"""extra\s*==\s*['"]([\w.-]+)['"]""", requirement)
        name = re.match(r"[\w.-]+", requirement)
        if extra and name and name[0] != "residuum":
            found.setdefault(extra[1], {})[name[0]] = installed_version(name[0])
    return found


def allowed_cores(n_jobs: int | None) -> int:
    """Cores that ``n_jobs`` stands for; -1 and None are every usable core."""
    cores = usable_cores()
    if n_jobs not in (None, -1) and not 1 <= n_jobs <= cores:
        raise UsageError(f"n_jobs must be -1 (all cores) or from 1 to {cores}, the cores here. Got {n_jobs}.")
    return cores if n_jobs in (None, -1) else n_jobs


_most_threads: int | None = None


def most_threads() -> int | None:
    """Threads that `limit_threads` allows, None outside of it."""
    return _most_threads


@contextmanager
def limit_threads(n_jobs: int | None) -> Iterator[None]:
    """Give BLAS, OpenMP, numba and the solvers `n_jobs` threads; -1 is every usable core, None no limit."""
    if n_jobs is None:
        yield
        return
    count = allowed_cores(n_jobs)
    import numba
    from threadpoolctl import threadpool_limits

    thread_pools()  # a library loaded later would not be limited
    global _most_threads
    before, outer = numba.get_num_threads(), _most_threads
    most: int = vars(numba.config)["NUMBA_NUM_THREADS"]
    numba.set_num_threads(min(count, most))
    try:
        _most_threads = count
        with threadpool_limits(count):
            yield
    finally:
        _most_threads = outer
        numba.set_num_threads(before)
