"""The report page of a comparison, made from its results.json."""

from __future__ import annotations

from typing import Any

from residuum.reports.numbers import percent
from residuum.reports.page import render
from residuum.reports.plots import coefficient_figure, convergence_figure
from residuum.reports.table import Table
from residuum.reports.thumbnails import to_pixels


def report_page(results: dict[str, Any], table: Table) -> str:
    """The whole page: table, coefficients, convergence, and how to get the same numbers again."""
    illustration, query = results["illustration"], None
    if "image_shape" in illustration:
        sample = illustration["sample"]
        query = to_pixels(sample, illustration["image_shape"], low=0.0, high=max(sample))
    best = max(results["summary"], key=lambda row: row["accuracy_mean"])
    return render(
        "compare.html",
        title="Sparse, collaborative or non-negative: which helps?",
        data_name=results["data"]["name"],
        best_method=best["method"],
        best_accuracy=percent(best["accuracy_mean"]),
        results=table,
        illustration=illustration,
        query_image=query,
        coefficients=coefficient_figure(illustration),
        convergence=convergence_figure(illustration),
        parameters=_parameter_texts(results["parameters"]),
        run=_run_texts(results),
        command=command_line(results["settings"], results["data"].get("arguments", "")),
    )


def command_line(settings: dict[str, Any], arguments: str = "") -> str:
    """The command that gives these results; `arguments` name the data and how they were read."""
    words = ["residuum compare", arguments, f"--methods {','.join(settings['methods'])}"]
    words.append(f"--trials {settings['trials']}")
    if settings["train_per_class"] is not None:
        words.append(f"--train-per-class {settings['train_per_class']}")
    words.append(f"--seed {settings['seed']}")
    if settings.get("select") == "cv":
        words.append("--select cv")
    if settings["n_jobs"] is not None:
        words.append(f"--n-jobs {settings['n_jobs']}")
    return " ".join(word for word in words if word)


def _parameter_texts(parameters: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {
        method: f"{values['estimator']}("
        + ", ".join(f"{name}={value!r}" for name, value in values.items() if name != "estimator")
        + ")"
        for method, values in parameters.items()
    }


def _run_texts(results: dict[str, Any]) -> dict[str, str]:
    machine, settings = results["machine"], results["settings"]
    pools = (
        f"{' '.join(str(pool[k]) for k in ('internal_api', 'version') if pool.get(k))} "
        f"× {pool['num_threads']}"
        for pool in machine["thread_pools"]
    )
    return {
        "Finished": results["created"],
        "Seed": str(settings["seed"]),
        "CPU": f"{machine['cpu']}, {machine['cores']} cores",
        "Platform": f"{machine['platform']}, Python {machine['python']}",
        "Threads": ", ".join([*pools, f"numba × {machine['numba_threads']}"]),
        "Versions": ", ".join(
            [f"residuum {machine['residuum']}"] + [f"{k} {v}" for k, v in machine["packages"].items()]
        ),
    }
