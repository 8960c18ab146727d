"""A report page from results.json: one HTML file that asks nothing of the network."""

from __future__ import annotations

import html
from typing import Any

from residuum.reports.page import page
from residuum.reports.plots import coefficient_figure, convergence_figure, query_picture
from residuum.reports.table import Table, html_table


def report_page(results: dict[str, Any], table: Table) -> str:
    """The whole page: table, coefficients, convergence, and how to get the same numbers again."""
    settings, illustration = results["settings"], results["illustration"]
    query = query_picture(illustration) if "image_shape" in illustration else ""
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in table.notes)
    again = html.escape(command_line(settings, results["data"].get("arguments", "")))
    body = f"""<h2>Results</h2>
<div class="wide" tabindex="0" role="region" aria-label="Table of results">{html_table(table)}</div>
<ul class="notes">{notes}</ul>
<h2>One query, three codes</h2>
<figure>
<figcaption>{query}<span>{_code_caption(illustration)}</span></figcaption>
<div class="wide">{coefficient_figure(illustration)}</div>
</figure>
<h2>How ADMM converges</h2>
<figure>
<figcaption><span>{_curve_caption(illustration)}</span></figcaption>
<div class="wide">{convergence_figure(illustration)}</div>
</figure>
<h2>Parameters</h2>
<dl>{_pairs(_parameter_texts(results["parameters"]))}</dl>
<h2>Machine and run</h2>
<dl>{_pairs(_run_texts(results))}</dl>
<p class="notes">The same numbers again (times aside): <code>{again}</code></p>"""
    name = f"residuum compare: {results['data']['name']}"
    return page(name, "Sparse, collaborative or non-negative: which helps?", _lead(results), body)


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


def _lead(results: dict[str, Any]) -> str:
    best = max(results["summary"], key=lambda row: row["accuracy_mean"])
    return html.escape(
        f"Each query is coded over all training samples; the class whose samples leave the smallest residual "
        f"wins. On {results['data']['name']} the highest mean accuracy is that of {best['method']}, "
        f"{100 * best['accuracy_mean']:.1f} %. The notes under the table say which methods were tuned."
    )


def _code_caption(illustration: dict[str, Any]) -> str:
    return html.escape(
        f"Coefficients of one query, the first of the first trial (class {illustration['label']}), over the "
        "training samples, one line each, coloured by class. A sparse code uses few samples, a collaborative "
        "code uses all and lets them cancel out, a non-negative code only adds. The paper draws this as "
        "its Figure 1."
    )


def _curve_caption(illustration: dict[str, Any]) -> str:
    return html.escape(
        f"Largest differences between the iterates of Algorithm 2 for the same query, rho = "
        f"{illustration['rho']:g}: between c and z, and of each to the step before. All three go to zero "
        "together. The paper draws this as its Figure 2."
    )


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


def _pairs(texts: dict[str, str]) -> str:
    return "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in texts.items())
