"""Facts about the machine and the software that a result depends on."""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata
from pathlib import Path
from typing import Any

from residuum import __version__

PACKAGES = ["numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl", "numba"]
PACKAGES += ["click", "rich", "matplotlib"]
THREAD_VARIABLES = [f"{library}_NUM_THREADS" for library in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMBA")]


def machine_facts() -> dict[str, Any]:
    """Versions, CPU, BLAS and threads as plain JSON; the same on every call with the same settings."""
    import joblib
    import numba

    # Asking numba loads its threading layer, which is then among the pools below on every call.
    numba_threads = numba.get_num_threads()
    cpu = _line_of("/proc/cpuinfo", r"model name\s*:\s*(.+\S)")
    return {
        "residuum": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": cpu or platform.processor() or platform.machine() or "unknown",
        "cores": int(joblib.cpu_count()),  # in a container, these can be fewer than the machine has
        "packages": {name: installed_version(name) for name in PACKAGES},
        "thread_pools": thread_pools(),
        "numba_threads": numba_threads,
        "thread_variables": {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ},
    }


def free_memory() -> int | None:
    """Bytes of memory that could be used without swapping, where the system tells."""
    kilobytes = _line_of("/proc/meminfo", r"MemAvailable:\s*(\d+) kB")
    return 1024 * int(kilobytes) if kilobytes else None


def _line_of(file: str, pattern: str) -> str | None:
    """What the pattern finds in a file of facts, which only Linux has."""
    if not Path(file).is_file():
        return None
    found = re.search(f"^{pattern}", Path(file).read_text(errors="replace"), re.MULTILINE)
    return found[1] if found else None


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
        extra = re.search(r"""^(?!residuum\b)([\w.-]+).*extra\s*==\s*['"]([\w.-]+)['"]""", requirement)
        if extra:
            found.setdefault(extra[2], {})[extra[1]] = installed_version(extra[1])
    return found
