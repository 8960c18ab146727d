"""Pages that are written at build time from the code itself: the API, the estimators, the command line.

They go to docs/generated, which is not kept in the repository, so that they cannot disagree with the code.
"""

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import click
import yaml
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import residuum
import residuum.scale

GROUPS = {
    "Classifiers": "residuum.estimators",
    "Classifiers that choose their parameters": "residuum.selection",
    "Least squares": "residuum.lstsq residuum.regression",
    "Features": "residuum.features",
    "Explanations and pictures": "residuum.estimators.examples residuum.estimators.displays",
    "Model files": "residuum.models.saving residuum.models.file",
}
# What functions and methods return: reachable by no import from residuum, and still to be looked up.
RESULTS = {
    "Solution": "residuum.problem",
    "LeastSquaresSolution": "residuum.lstsq.solution",
    "Answers": "residuum.estimators.answers",
    "Explanation": "residuum.estimators.explanation",
    "AtomShare": "residuum.estimators.explanation",
    "ClassPart": "residuum.estimators.explanation",
    "Verdict": "residuum.estimators.explanation",
}
# The names of residuum.scale, which is imported apart.
SCALE = {f"scale.{name}": "residuum.scale" for name in residuum.scale.__all__}
# Files of the repository that have a page here.
PAGES_OF_FILES = {
    "CHANGELOG": "changelog",
    "CODE_OF_CONDUCT": "conduct",
    "CONTRIBUTING": "contributing",
    "README": "index",
    "SECURITY": "security",
}
GALLERY_ORDER = [
    "three_codes",
    "admm_and_the_optimum",
    "digits",
    "faces",
    "tables_with_pandas",
    "cross_validation",
    "compare_from_python",
    "few_shot",
    "open_set",
    "enrolment",
    "dask_queries",
    "scale_out",
    "explanation",
    "explain_by_examples",
    "unmixing",
]


def is_in_gallery(script: Path) -> bool:
    """Whether a script of examples/ begins with a title; others are linked to as files."""
    return bool(script.is_file() and re.match(r'"""[^\n]+\n=+\n', script.read_text(encoding="utf-8")))


def gallery_order(filename: str) -> tuple[int, str]:
    """Sort key of the gallery: the order above, then the others by name."""
    stem = Path(filename).stem
    place = GALLERY_ORDER.index(stem) if stem in GALLERY_ORDER else len(GALLERY_ORDER)
    return place, stem


def first_sentence(thing: Any) -> str:
    """The first paragraph of a docstring, whole: formulas contain full stops."""
    text = inspect.getdoc(thing) or ""
    return " ".join(text.split("\n\n")[0].split())


def grouped_names() -> dict[str, list[str]]:
    """Every public name under the heading of the room it lives in."""
    found: dict[str, list[str]] = {heading: [] for heading in GROUPS}
    homes_of = {name: home for home, names in residuum._MODULES.items() for name in names.split()}
    for name in sorted(residuum.__all__, key=str.lower):
        fits = [heading for heading, homes in GROUPS.items() if homes_of[name] in homes.split()]
        found.setdefault(fits[0] if fits else "More", []).append(name)
    return {heading: names for heading, names in found.items() if names}


def own_methods(cls: type) -> list[str]:
    """Public methods and properties that are written here, not in scikit-learn; those of a search too."""
    names = []
    for name in dir(cls):
        if name.startswith("_"):
            continue
        member = inspect.getattr_static(cls, name)
        target = getattr(member, "fget", None) or getattr(member, "__func__", member)
        target = getattr(target, "func", None) or getattr(target, "fn", None) or target
        module = getattr(inspect.unwrap(target), "__module__", None) or ""
        is_member = callable(getattr(cls, name, None)) and not inspect.isclass(getattr(cls, name))
        is_member = is_member or isinstance(member, property)
        if is_member and module.startswith("residuum") and inspect.getdoc(getattr(cls, name)):
            names.append(name)
    return names


def named(name: str, module: str) -> Any:
    """The thing that a page is about; ``scale.shard`` is ``shard`` of its module."""
    return getattr(importlib.import_module(module), name.split(".")[-1])


def api_page(name: str, module: str) -> str:
    """reStructuredText of the page of one name."""
    thing = named(name, module)
    lines = [name, "=" * len(name), ""]
    if not inspect.isclass(thing):
        return "\n".join([*lines, f".. autofunction:: {module}.{thing.__name__}", ""])
    lines += [f".. autoclass:: {module}.{thing.__name__}"]
    for member in own_methods(thing):
        is_property = not callable(getattr(thing, member))
        lines += ["", f"   .. auto{'property' if is_property else 'method'}:: {member}"]
    return "\n".join([*lines, ""])


def linked_table(rows: list[tuple[str, str]]) -> list[str]:
    """A table of names with links, and of what they are."""
    lines = ["| name | what it is or does |", "|---|---|"]
    for name, text in rows:
        lines.append(f"| [{name}](api/{name}.rst) | {text.replace('|', chr(92) + '|')} |")
    return [*lines, ""]


def api_index() -> str:
    """Markdown of the table of contents of the reference."""
    lines = ["# API reference", "", "Import these names from `residuum`. A row of `X` is a sample.", ""]
    lines += ["Which estimator supports what is in [one table](estimators.md).", ""]
    names = []
    for heading, members in grouped_names().items():
        names += members
        lines += [f"## {heading}", ""]
        lines += linked_table([(name, first_sentence(getattr(residuum, name))) for name in members])
    for heading, homes in (("Scaling out", SCALE), ("What they return", RESULTS)):
        lines += [f"## {heading}", ""]
        lines += ["`from residuum import scale`; see [the guide](../scale.md).", ""] if homes is SCALE else []
        lines += linked_table([(name, first_sentence(named(name, home))) for name, home in homes.items()])
    entries = [f"api/{name}" for name in (*names, *SCALE, *RESULTS)]
    return "\n".join(
        [*lines, "```{toctree}", ":hidden:", ":maxdepth: 1", "", "estimators", *entries, "```", ""]
    )


def estimator_table() -> str:
    """Markdown of what each classifier supports, asked from the classes and their scikit-learn tags."""
    from sklearn.utils import get_tags

    from residuum.estimators import METHODS
    from residuum.rules import RULES

    lines = [
        "# What each estimator supports",
        "",
        "Written at build time from `METHODS`, the parameters and the scikit-learn tags of the classes.",
        "",
        "| | problem | default rule | weights | enrol, forget | search | two features |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, make in METHODS.items():
        estimator = make()
        formula = re.match(r"``(.+?)``", first_sentence(make))
        problem = formula[1] if formula else first_sentence(make)
        rule = estimator.get_params().get("rule", "its own").replace("_", " ")
        takes_weights = "sample_weight" in inspect.signature(make.fit).parameters
        search = f"{name}CV"
        cells = [
            f"[{name}](api/{name}.rst)" if name in residuum.__all__ else name,
            f"`{problem}`".replace("|", r"\|"),
            rule,
            _yes(takes_weights),
            _yes(hasattr(make, "partial_fit") and hasattr(make, "forget")),
            f"[{search}](api/{search}.rst)" if search in residuum.__all__ else "no",
            "weak" if get_tags(estimator).classifier_tags.poor_score else "yes",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "- **Weights**: `sample_weight` and `class_weight`.",
        "- **Enrol, forget**: `partial_fit` with new samples or classes, and `forget`.",
        "- After `KernelMap` each is a kernel method, and `ConfidentClassifier` gives each calibrated",
        "  probabilities and lets it refuse.",
        '- **Two features**: "weak" where every class spans the plane as soon as it has two samples (the tag',
        "  `poor_score`); such tables need a kernel.",
        f"- **Rules**: {', '.join(f'`{rule}`' for rule in RULES)}; see [rules](../rules.md).",
        "- All take dense float32 or float64 tables, one label per sample, and any number of classes; none",
        "  takes NaN or sparse matrices.",
        "",
    ]
    return "\n".join(lines)


def _yes(condition: bool) -> str:
    return "yes" if condition else "no"


def command_line() -> str:
    """Markdown of all commands and options, asked from click."""
    from residuum.cli.main import COMMANDS, cli

    context = click.Context(cli, info_name="residuum")
    lines = [
        "# The command line",
        "",
        "Written at build time from the command itself: `residuum --help`.",
        "",
    ]
    lines += ["| command | what it does |", "|---|---|"]
    lines += [f"| [`{name}`](#residuum-{name}) | {text} |" for name, text in COMMANDS.items()]
    lines += ["", "Exit codes: 0 ok, 1 any other failure, 2 usage, 3 data, 4 not converged, 130 interrupted."]
    lines += ["Every command takes `--debug`, which shows the traceback of an unexpected error.", ""]
    for name in COMMANDS:
        command = cli.get_command(context, name)
        lines += _command(command, f"residuum {name}", context, "##")
    return "\n".join(lines)


def _command(command: Any, path: str, parent: click.Context, level: str) -> list[str]:
    context = click.Context(command, info_name=path.split()[-1], parent=parent)
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f"{level} {path}", "", "```text", f"{path} {usage}", "```", ""]
    for paragraph in inspect.cleandoc(command.help or "").replace("\b", "").split("\n\n"):
        text = re.sub(r"([<>*_])", r"\\\1", " ".join(paragraph.split()))
        lines += [re.sub(r"(?<![\w-])(--[a-z][a-z-]+)", r"`\1`", text), ""]
    rows = [p.get_help_record(context) for p in command.params]
    shown = [row for row in rows if row and row[1]]
    if shown:
        lines += ["| option | |", "|---|---|"]
        for flags, text in shown:
            words = re.sub(r"([<>*_|\[\]])", r"\\\1", " ".join(text.split()))
            lines.append(f"| `{flags.replace('|', chr(92) + '|')}` | {words} |")
        lines.append("")
    for name, inner in getattr(command, "commands", {}).items():
        lines += _command(inner, f"{path} {name}", context, f"{level}#")
    return lines


def write_all(folder: Path) -> None:
    """Write every page that has changed."""
    pages = {"api.md": api_index(), "estimators.md": estimator_table(), "command_line.md": command_line()}
    homes = dict.fromkeys(residuum.__all__, "residuum") | SCALE | RESULTS
    pages |= {f"api/{name}.rst": api_page(name, module) for name, module in homes.items()}
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)
    for path in folder.rglob("*.*"):
        if path.relative_to(folder).as_posix() not in pages:
            path.unlink()


def prepare_source(app: Any, docname: str, source: list[str]) -> None:
    """Links to scripts and files that have a page lead there; ``name*`` in contents may match no page."""
    to_root = "../" * docname.count("/")
    folder = (Path(app.srcdir) / docname).parent
    source[0] = re.sub(
        r"^(\w+\*)\n",
        lambda line: line[0] if any(folder.glob(line[1] + ".md")) else "",
        source[0],
        flags=re.M,
    )

    def page_of(link: re.Match[str]) -> str:
        known = is_in_gallery(Path(app.srcdir).parent / "examples" / f"{link[1]}.py")
        return f"]({to_root}gallery/{link[1]}.rst)" if known else link[0]

    source[0] = re.sub(r"\]\(\.\./examples/(\w+)\.py\)", page_of, source[0])
    for file, page in PAGES_OF_FILES.items():
        source[0] = source[0].replace(f"](../{file}.md", f"]({to_root}{page}.md")


def escape_fitted_names(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """``(n_components_, 3)`` in a docstring is a shape, not a link to "n_components"."""
    for number, line in enumerate(lines):
        lines[number] = re.sub(
            r"\([^()`]*\)", lambda shape: re.sub(r"(\w)_(?=[,)])", r"\1\\_", shape[0]), line
        )


class Citation(SphinxDirective):
    """BibTeX of CITATION.cff: the software, and the paper."""

    def run(self) -> list[nodes.Node]:
        path = Path(self.env.srcdir).parent / "CITATION.cff"
        self.env.note_dependency(str(path))
        return [nodes.literal_block("", bibtex(yaml.safe_load(path.read_text())), language="bibtex")]


def bibtex(facts: dict[str, Any]) -> str:
    """Two entries from the facts of a CITATION.cff."""
    paper = facts["preferred-citation"]
    software = [
        ("title", facts["title"]),
        ("author", " and ".join("{" + each["name"] + "}" for each in facts["authors"])),
        ("version", str(facts["version"])),
        ("note", f"License {facts['license']}"),
        *([("url", facts["repository-code"])] if "repository-code" in facts else []),
    ]
    names = (f"{each['family-names']}, {each['given-names']}" for each in paper["authors"])
    article = [("title", paper["title"]), ("author", " and ".join(names)), ("journal", paper["journal"])]
    article += [(name, str(paper[name])) for name in ("volume", "year", "doi") if name in paper]
    return "\n\n".join(
        f"@{kind}{{{key},\n" + "".join(f"  {name} = {{{value}}},\n" for name, value in entries) + "}"
        for kind, key, entries in (
            ("software", "residuum", software),
            ("article", "xu2019nonnegative", article),
        )
    )


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", lambda app: write_all(Path(app.srcdir) / "generated"))
    app.add_directive("citation", Citation)
    app.connect("source-read", prepare_source)
    app.connect("autodoc-process-docstring", escape_fitted_names, priority=100)  # before numpydoc
    return {"parallel_read_safe": True, "parallel_write_safe": True}
