"""What the pages say is so: their code runs, their figures come from where they say, and the site is whole.

The tests of the built site need `make docs` first, the extra `docs`, and Chromium (RESIDUUM_CHROMIUM names
one that is not on the path); without them they are skipped, and say what is missing.
"""

import contextlib
import doctest
import functools
import html.parser
import http.server
import io
import json
import os
import re
import shutil
import sys
import threading
import urllib.parse
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SITE = DOCS / "_build" / "html"
if not DOCS.is_dir():
    pytest.skip("docs/ is not here", allow_module_level=True)
PAGES = sorted(DOCS.glob("*.md"))
RUNNING = [page for page in PAGES if "```pycon" in page.read_text(encoding="utf-8")]


def text_of(name):
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.stem)
def test_code_on_a_page_prints_what_the_page_shows(page):
    blocks = re.findall(r"```pycon\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page.stem, str(page), 0)
    said = io.StringIO()
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    with contextlib.redirect_stdout(said):
        result = doctest.DocTestRunner(optionflags=options).run(test)
    assert result.attempted
    assert not result.failed, said.getvalue()


NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*\.\d+(?![\w])|(?<![\w.])\d/\d+")


def quotations():
    """(page, text, source) of every line or paragraph that says "[measured](source)"."""
    for page in PAGES:
        for block in re.split(r"\n\s*\n|\n(?=\s*[-|] ?)", page.read_text(encoding="utf-8")):
            sources = re.findall(r"\[measured[^\]]*\]\((\w+\.md)", block)
            if sources:
                yield page, " ".join(block.split()), sources


def missing_numbers(text, sources):
    """Decimal numbers of a text that none of the pages it refers to has."""
    known = " ".join(text_of(source) for source in sources)
    shown = {number.group() for number in NUMBER.finditer(known)}
    return [
        number for number in NUMBER.findall(re.sub(r"\]\([^)]*\)|`[^`]*`", "", text)) if number not in shown
    ]


def test_a_quoted_figure_stands_on_the_page_it_is_quoted_from():
    found = list(quotations())
    assert len(found) > 15
    wrong = [(page.name, missing, text) for page, text, s in found if (missing := missing_numbers(text, s))]
    assert not wrong


def test_a_wrong_quotation_would_be_seen():
    assert missing_numbers("Wine: 99.5 % ([measured](measurements.md))", ["measurements.md"]) == ["99.5"]


# Figures and the stored runs they come from.


def numbers_in_text():
    sys.path.insert(0, str(DOCS))
    try:
        import numbers_in_text
    finally:
        sys.path.pop(0)
    return numbers_in_text


def test_the_text_has_the_figures_of_the_stored_runs():
    assert not numbers_in_text().differences()


def test_every_stored_run_is_shown():
    module = numbers_in_text()
    shown = {block[2] for page in module.pages() for block in module.BLOCK.finditer(page.read_text("utf-8"))}
    assert shown == set(module.RENDER)


def test_a_figure_that_is_changed_by_hand_is_seen(tmp_path, monkeypatch):
    module = numbers_in_text()
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "DOCS", tmp_path / "docs")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "data").symlink_to(DOCS / "data")
    for page in [*PAGES, ROOT / "README.md"]:
        (tmp_path / page.relative_to(ROOT)).write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
    assert not module.differences()
    page = tmp_path / "docs" / "measurements.md"
    right = page.read_text(encoding="utf-8")
    for true, false in (("| NSC | 79.6 |", "| NSC | 79.7 |"), ("SPAMS** 1.4 to", "SPAMS** 1.3 to")):
        assert true in right
        page.write_text(right.replace(true, false), encoding="utf-8")
        assert len(module.differences()) == 1


@pytest.mark.parametrize("path", sorted((DOCS / "data").glob("*.json")), ids=lambda path: path.stem)
def test_a_stored_run_says_where_it_comes_from(path):
    content = json.loads(path.read_text(encoding="utf-8"))
    if path.stem == "earlier_runs":
        listed = (DOCS / "data" / "README.md").read_text(encoding="utf-8")
        assert all(Path(page).name in listed for page, sections in content.items() if sections)
        return
    known = r"(python (benchmarks|tests)/\w+\.py|python -m battery|residuum (bench|episodes|reproduce))\b"
    assert re.match(rf"(\w+=\w+ )*{known}", content["command"])
    assert {"commit", "date", "load_average"} <= set(content)
    assert {"cpu", "cores", "packages"} <= set(content["machine"])


def test_the_verdict_follows_from_the_tables_of_the_results():
    sys.path.insert(0, str(DOCS / "figures"))
    try:
        from _results import read_results
    finally:
        sys.path.pop(0)
    from residuum.paper.verdict import FAMILIES

    results, page = read_results(), text_of("results.md")
    for protocol in ("published", "authors", "best"):
        assert len(results[protocol]) == 11
        counts = dict.fromkeys(FAMILIES, 0)
        for accuracies in results[protocol].values():
            best = {f: max(accuracies.get(m, 0) for m in members) for f, members in FAMILIES.items()}
            for family, accuracy in best.items():
                counts[family] += accuracy == max(best.values())
        said = re.search(rf"Protocol {protocol} \(.*?softmax\) is (.*?)\. ", page)[1]
        assert said == ", ".join(f"{family} {count}" for family, count in counts.items())


def test_within_a_point_of_the_paper():
    sys.path.insert(0, str(DOCS / "figures"))
    try:
        from _results import read_results
    finally:
        sys.path.pop(0)
    results = read_results()
    pairs = [
        (results["authors"][row][m], a) for row, cells in results["paper"].items() for m, a in cells.items()
    ]
    near = sum(abs(ours - paper) < 0.95 for ours, paper in pairs)  # a difference of 1.0 may be either
    far = sum(abs(ours - paper) < 1.05 for ours, paper in pairs)
    for page in ("paper.md", "results.md"):
        text = " ".join(text_of(page).split())
        said = int(re.search(rf"(\d+) of {len(pairs)} cells lie within 1\.0 point", text)[1])
        assert near <= said <= far


def test_every_number_with_a_command_has_one_that_exists():
    known = {path.name for folder in ("benchmarks", "examples") for path in (ROOT / folder).glob("*.py")}
    for page in [*PAGES, ROOT / "README.md"]:
        for script in re.findall(
            r"python (?:benchmarks|examples)/(\w+\.py)", page.read_text(encoding="utf-8")
        ):
            assert script in known, f"{page.name} names {script}"


# The workflow files cannot run here; that they are valid is checked against the published schema.


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.stem
)
def test_workflow_is_valid(path):
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is in the extra dev")
    from check_jsonschema import main

    with pytest.raises(SystemExit) as ended:
        main(["--builtin-schema", "vendor.github-workflows", str(path)])
    assert ended.value.code == 0


def test_workflows_run_what_the_makefile_has():
    targets = set(re.findall(r"^(\w+):.*##", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        for line in re.findall(r"run: make (.*)", path.read_text()):
            assert set(line.split()) <= targets, f"{path.name}: make {line}"


# The built site.


class Links(html.parser.HTMLParser):
    """Addresses of links and pictures, and the places that can be linked to."""

    def __init__(self, path):
        super().__init__()
        self.links, self.ids, self.images = [], set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag == "img":
            self.images.append((values.get("src"), values.get("alt")))


@pytest.fixture(scope="module")
def site():
    if not (SITE / "index.html").is_file():
        pytest.skip("docs/_build/html is not built: run make docs first")
    pages = [
        p for p in sorted(SITE.rglob("*.html")) if "_static" not in p.parts and "_modules" not in p.parts
    ]
    return {path: Links(path) for path in pages}


def test_no_internal_link_or_picture_is_broken(site):
    broken = []
    for page, found in site.items():
        for address in [*found.links, *(source for source, _ in found.images)]:
            parts = urllib.parse.urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else page
            if not target.exists() or (
                parts.fragment
                and target in site
                and urllib.parse.unquote(parts.fragment) not in site[target].ids
            ):
                broken.append((page.name, address))
    assert not broken


def test_every_picture_has_an_alternative_text(site):
    without = [(p.name, source) for p, found in site.items() for source, alt in found.images if alt is None]
    assert not without
    for page, found in site.items():
        figures = [alt for source, alt in found.images if re.search(r"sphx_glr_\w+_\d{3}\.png", source)]
        assert all(alt.strip() for alt in figures), page.name
        for drawing in re.findall(r"<svg[^>]*role=\"img\"[^>]*>", page.read_text(encoding="utf-8")):
            if 'aria-hidden="true"' not in drawing:  # icons of the theme
                assert re.search(r"aria-label=\"[^\"]{30,}\"", drawing), page.name


def test_every_public_name_has_a_page_with_its_whole_summary(site):
    import residuum.scale

    overview = (SITE / "generated" / "api.html").read_text(encoding="utf-8")
    words = re.sub(r"\W+", " ", html.unescape(re.sub(r"<[^>]+>", "", overview)))
    public = {name: getattr(residuum, name) for name in residuum.__all__}
    public |= {f"scale.{name}": getattr(residuum.scale, name) for name in residuum.scale.__all__}
    for name, thing in public.items():
        assert (SITE / "generated" / "api" / f"{name}.html").is_file()
        summary = (thing.__doc__ or "").strip().split("\n\n")[0]
        assert re.sub(r"\W+", " ", summary).strip() in words, name


WANTED = {  # what a reader looks for, and words that only the page with the answer has
    "classify a CSV": "residuum fit wine.csv",
    "what NRC is": "What is NRC?",
    "unmix a spectrum": "sum_to=1",
    "scale out": "residuum shard",
    "cite": "@article",
}


def articles(site):
    """Page -> (text of its article, pages that the article links to); menus and side bars do not count."""
    found = {}
    for page in site:
        text = page.read_text(encoding="utf-8")
        article = text[text.index("<article") : text.index("</article")] if "<article" in text else ""
        links = [link.split("#")[0] for link in re.findall(r'href="([^":]+\.html[^"]*)"', article)]
        targets = {(page.parent / urllib.parse.unquote(link)).resolve() for link in links}
        found[page] = html.unescape(re.sub(r"<[^>]+>", "", article)), targets & set(site)
    return found


@pytest.mark.parametrize("wanted", WANTED)
def test_what_a_reader_looks_for_is_three_clicks_away_at_most(site, wanted):
    known = articles(site)
    seen, last = {SITE / "index.html"}, {SITE / "index.html"}
    for _ in range(3):
        last = set().union(*(known[page][1] for page in last)) - seen
        seen |= last
        if any(WANTED[wanted] in known[page][0] for page in last):
            return
    pytest.fail(f"no page within three clicks has {WANTED[wanted]!r}")


FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
RAW_TEX = r"""() => {
  const article = document.querySelector("article") || document.body;
  const copy = article.cloneNode(true);
  copy.querySelectorAll("pre, code, script, style, mjx-container, svg").forEach(node => node.remove());
  const found = copy.textContent.match(/\\\(|\\\[|\$\$|\\(frac|lVert|min|texttt|sum)\b/);
  return found && found[0];
}"""


@pytest.fixture(scope="module")
def visits(site):
    """What Chromium sees on every page: faults by page."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is in the extra docs")
    chromium = (
        os.environ.get("RESIDUUM_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    )
    handler = functools.partial(QuietHandler, directory=str(SITE))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = f"http://127.0.0.1:{server.server_address[1]}/"
    faults = []
    with playwright.sync_playwright() as manager:
        try:
            browser = manager.chromium.launch(executable_path=chromium, args=FLAGS)
        except playwright.Error as error:
            server.shutdown()
            pytest.skip(f"no Chromium can be started: {str(error).splitlines()[0]}")
        page = browser.new_page(viewport={"width": 400, "height": 800})
        page.set_default_timeout(0)  # a busy machine is no fault
        place = [""]

        def report(kind, text):
            faults.append((place[0], kind, text))

        def route(request):
            if request.request.url.startswith(home):
                return request.continue_()
            report("outside", request.request.url)
            return request.abort()

        page.route("**/*", route)
        page.on("console", lambda said: said.type == "error" and report("console", said.text))
        page.on("pageerror", lambda error: report("console", str(error)))
        page.on("response", lambda got: got.status >= 400 and report("missing", got.url))
        for path in site:
            place[0] = path.relative_to(SITE).as_posix()
            page.goto(home + place[0], wait_until="load")
            page.evaluate("() => window.MathJax && MathJax.startup && MathJax.startup.promise")
            if tex := page.evaluate(RAW_TEX):
                report("raw TeX", tex)
            width = page.evaluate("document.documentElement.scrollWidth")
            if width > 400:
                report("too wide", str(width))
        browser.close()
    server.shutdown()
    return faults


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Files, without a line in the log for each."""

    def log_message(self, *_):
        """Say nothing."""


@pytest.mark.parametrize("kind", ["outside", "console", "missing", "raw TeX", "too wide"])
def test_chromium_finds_no_fault_on_any_page(visits, kind):
    assert not [(page, text) for page, fault, text in visits if fault == kind]
