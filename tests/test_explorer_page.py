"""The page of ``residuum explore`` in a real browser: Chromium through Playwright, and a real server.

RESIDUUM_CHROMIUM names the browser, by default /usr/bin/chromium. RESIDUUM_PICTURES=folder keeps the pictures
for README and docs there. Playwright's `wait_for_function` needs eval, which the policy of the page forbids.
"""

import base64
import functools
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from explorer_server import HOSTILE, digits, forty_classes, hostile_names, photographs, served

from residuum.explorer.session import Removed

playwright = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
httpx = pytest.importorskip("httpx")
pytest.importorskip("starlette", reason="needs the extra 'explorer'")
pytest.importorskip("uvicorn", reason="needs the extra 'explorer'")

CHROMIUM = os.environ.get("RESIDUUM_CHROMIUM", "/usr/bin/chromium")
pytestmark = [
    pytest.mark.skipif(
        not Path(CHROMIUM).exists(), reason=f"no Chromium at {CHROMIUM}; RESIDUUM_CHROMIUM names one"
    ),
    pytest.mark.xdist_group("explorer"),
]
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
THREE = [
    (0.3, 0.25),
    (0.5, 0.15),
    (0.7, 0.25),
    (0.65, 0.42),
    (0.48, 0.5),
    (0.68, 0.58),
    (0.72, 0.75),
    (0.5, 0.88),
]
THREE += [(0.28, 0.78)]
ONE = [(0.5, 0.15), (0.5, 0.85)]


class Site:
    """An exploration with its address."""

    def __init__(self, exploration, url):
        self.exploration, self.url = exploration, url
        self.base, self.token = url.split("/?token=")

    def post(self, path, body=None, **options):
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        headers |= options.pop("headers", {})
        content = options.pop("content", None) or json.dumps(body).encode()
        return httpx.post(self.base + path, content=content, headers=headers, timeout=60, **options)

    def explain(self, number=0, asked=None, **removed):
        """The library's explanation of a held-out sample, as the page gets it."""
        exploration = self.exploration
        settings = exploration.controls.checked(asked)
        return exploration.explain(exploration.query(number), settings, Removed.checked(removed, exploration))


@pytest.fixture(scope="module")
def site():
    exploration = digits()
    with served(exploration) as url:
        yield Site(exploration, url)


@pytest.fixture(scope="module")
def people():
    exploration = forty_classes()
    with served(exploration) as url:
        yield Site(exploration, url)


@pytest.fixture(scope="module")
def hostile():
    exploration = hostile_names()
    with served(exploration) as url:
        yield Site(exploration, url)


@pytest.fixture(scope="module")
def birds():
    exploration = photographs()
    with served(exploration) as url:
        yield Site(exploration, url)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        yield chromium
        chromium.close()


def image_model(folder):
    """The file of a model that takes image files."""
    from PIL import Image

    rng = np.random.default_rng(5)
    for label, brightest in (("dark", 90), ("light", 255)):
        (folder / "train" / label).mkdir(parents=True)
        for i in range(4):
            pixels = rng.integers(0, brightest, size=(128, 128)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / "train" / label / f"{i}.png")
    out = folder / "m.residuum"
    command = [sys.executable, "-m", "residuum", "fit", str(folder / "train"), "--out", str(out)]
    subprocess.run([*command, "--with", "bow_sift"], check=True, capture_output=True)
    return out


@pytest.fixture
def page(browser):
    """A page on which no script may fail, and from which no request may go elsewhere."""
    with opened(browser) as page:
        yield page


class opened:
    def __init__(self, browser, **options):
        self._browser = browser
        self._options = {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light", **options}

    def __enter__(self):
        self.context = self._browser.new_context(**self._options)
        page = self.context.new_page()
        page.set_default_timeout(60_000)
        self.errors, self.requests = [], []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        page.on("request", lambda request: self.requests.append(request.url))
        page.requests = self.requests
        page.errors = self.errors
        return page

    def __exit__(self, kind, *_):
        self.context.close()
        if kind is None:
            assert not self.errors
            foreign = [
                url for url in self.requests if not re.match(r"(http://127\.0\.0\.1:|data:|blob:)", url)
            ]
            assert not foreign


def ready(page):
    """Wait until the page shows what its address says."""
    shown = json.dumps(state_of(page))
    page.wait_for_selector(f'.explain[data-ready="true"][data-shown={shown}]')


def go(page, site, hash_="#/explain"):
    page.goto(site.url + hash_)
    ready(page)


def value(page, selector):
    return float(page.locator(f"{selector} data").first.get_attribute("value"))


def values(page, selector):
    return [float(each.get_attribute("value")) for each in page.locator(f"{selector} data").all()]


def state_of(page):
    return page.evaluate("location.hash")


def until(page, holds):
    """Wait until the part of the address behind # is as asked."""
    page.wait_for_url(lambda url: holds(f"#{url.partition('#')[2]}"))


def changed(page, action):
    """Do something that changes the address, and wait until the page shows it."""
    before = state_of(page)
    action()
    until(page, lambda hash_: hash_ != before)
    ready(page)


def slide(page, name, position):
    page.locator(f"#{name}").evaluate(
        "(input, position) => { input.value = position;"
        " for (const kind of ['input', 'change']) input.dispatchEvent(new Event(kind, {bubbles: true})); }",
        position,
    )


def draw(page, points):
    box = page.locator("#pad").bounding_box()
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in points]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=3)
    page.mouse.up()
    until(page, lambda hash_: "values=" in hash_)
    page.wait_for_load_state("networkidle")
    ready(page)


def keep_picture(page, name, **options):
    """Take a picture for README and docs, in few colours, so that it stays small."""
    page.evaluate("scrollTo(0, 0)")
    shown = "image.checkVisibility() && image.getBoundingClientRect().top < innerHeight"
    for _ in range(200):  # pictures are there soon, and only those on the screen are loaded
        if page.evaluate(f"[...document.images].every((image) => image.complete || !({shown}))"):
            break
        page.wait_for_timeout(50)
    content = page.screenshot(animations="disabled", **options)
    assert len(content) > 10_000
    if folder := os.environ.get("RESIDUUM_PICTURES"):
        from PIL import Image

        image = Image.open(io.BytesIO(content)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
        image.save(Path(folder) / name, optimize=True)


# ------------------------------------------------------------------------------------------ explanation


def test_the_explanation_shows_the_numbers_of_the_library(page, site):
    go(page, site, "#/explain?q=5")
    found = site.explain(5)
    assert page.inner_text("#answer").strip() == str(found["winner"])
    assert value(page, "#margin") == found["margin"]
    assert value(page, "#gap") == found["certificate"]["gap"]
    shown = values(page, "#classes td.residual")
    assert shown == sorted(part["residual"] for part in found["classes"])
    weights = values(page, "#carriers .weight")
    assert weights == [atom["coefficient"] for atom in found["atoms"][: len(weights)]]
    probability = float(page.locator("#probability data").get_attribute("value"))
    assert probability == found["classes"][found["winner"]]["probability"]
    keep_picture(page, "explorer.png", full_page=False)


def test_marks_say_what_is_training_what_is_test_what_is_true(page, site):
    go(page, site, "#/explain?q=5")
    assert page.locator("#sum-card .mark.test").inner_text() == "test"
    truth = site.exploration.held_out.truth[5]
    assert f"true class {truth}" in page.inner_text("#sum-card figure >> nth=0")
    cards = page.locator("#carriers li")
    assert cards.count() == 6
    assert page.locator("#carriers .mark.train").count() == 6
    page.click("#more-carriers")
    assert cards.count() == 24


def test_wrong_answers_say_what_is_true(page, site):
    answers = site.exploration.confusion(site.exploration.controls.start)
    wrong = next(
        i
        for i, k in enumerate(answers["answered"])
        if k != answers["truth"][i] and not answers["rejected"][i]
    )
    go(page, site, f"#/explain?q={wrong}")
    assert page.inner_text(".verdict") == f"wrong: it is {answers['truth'][wrong]}"


def test_pictures_show_query_reconstruction_difference_and_parts(page, site):
    go(page, site)
    page.wait_for_load_state("networkidle")
    sizes = page.locator(".sum img").evaluate_all("all => all.map(one => one.naturalWidth)")
    assert sizes == [8] * 5
    assert page.locator("#carriers img").evaluate_all(
        "all => all.every(one => one.alt && one.naturalWidth === 8)"
    )


def drawn(page):
    return page.locator("#code path").evaluate_all("all => all.map(one => one.getAttribute('d')).join()")


@pytest.mark.parametrize(
    ("method", "name", "position"),
    [
        ("SRC", "l1", 150),
        ("CRC", "l2", 190),
        ("SoftNRC", "l2", 20),
        ("SoftNRC", "neg_weight", 201),
        ("NRC", "rho", 60),
        ("NRC", "max_iter", 30),
        ("NSC", "l2", 150),
        ("CROC", "weight", 20),
        ("ProCRC", "gamma", 180),
    ],
)
def test_a_slider_redraws_the_code_with_the_numbers_of_the_library(page, site, method, name, position):
    go(page, site, f"#/explain?q=5&method={method}")
    before, margin = drawn(page), value(page, "#margin")
    changed(page, lambda: slide(page, name, position))
    if name != "weight":  # CROC mixes scores, its code stays
        assert drawn(page) != before
    assert value(page, "#margin") != margin
    told = re.search(rf"{name}=([^&]+)", state_of(page)).group(1)
    asked = {"method": method, "parameters": {name: told if told == "inf" else float(told)}}
    found = site.explain(5, asked)
    assert value(page, "#margin") == pytest.approx(found["margin"], rel=1e-9)
    shown = values(page, "#carriers .weight")
    assert shown == pytest.approx([atom["coefficient"] for atom in found["atoms"][: len(shown)]], rel=1e-7)
    lines = drawn(page).count("M")
    assert lines == np.count_nonzero(found["code"])


def test_presets_go_from_sparse_to_non_negative(page, site):
    go(page, site, "#/explain?q=5")
    used = {}
    for method in ("SRC", "CRC", "NRC"):
        changed(page, lambda method=method: page.click(f"#preset-{method}"))
        used[method] = page.get_attribute("#code", "aria-label")
    assert int(re.search(r": (\d+) are not zero", used["SRC"]).group(1)) < 100
    assert "500 are not zero" in used["CRC"]
    assert used["NRC"].endswith("0 are negative.")
    changed(page, lambda: page.click("#reset"))
    assert page.locator("#reset").is_disabled()


def test_the_rule_and_the_exact_solver_can_be_chosen(page, site):
    go(page, site, "#/explain?q=5&method=NRC")
    assert page.inner_text("#ending") == "5 steps, as published"
    changed(page, lambda: page.select_option("#rule", "reconstruction"))
    changed(page, lambda: page.select_option("#solver", "exact"))
    assert page.locator("#rho").count() == 0
    found = site.explain(5, {"method": "NRC", "parameters": {"solver": "exact", "rule": "reconstruction"}})
    assert value(page, "#margin") == pytest.approx(found["margin"], rel=1e-9)
    assert "tolerance met" in page.inner_text("#ending")


def test_a_threshold_above_the_margin_answers_none_of_these(page, site):
    go(page, site, "#/explain?q=5")
    assert page.inner_text("#answer").strip() != "none of these"
    changed(page, lambda: slide(page, "threshold", 200))
    if value(page, "#margin") < 0.5:
        assert page.inner_text("#answer").strip() == "none of these"
    go(page, site, f"#/explain?q=5&threshold={value(page, '#margin') + 0.01}")
    assert page.inner_text("#answer").strip() == "none of these"


def test_pointing_at_the_code_names_the_training_sample(page, site):
    go(page, site, "#/explain?q=5")
    page.locator("#code").scroll_into_view_if_needed()
    box = page.locator("#code").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    tip = page.locator(".tip")
    assert tip.is_visible()
    assert "class 5" in tip.inner_text() or "class 4" in tip.inner_text()


# ---------------------------------------------------------------------------------------------- what if


def test_removing_a_sample_solves_again(page, site):
    go(page, site, "#/explain?q=5")
    first = int(page.locator("#carriers li").first.get_attribute("data-sample"))
    changed(page, lambda: page.locator("#carriers .remove").first.click())
    found = site.explain(5, samples=[first])
    assert value(page, "#margin") == found["margin"]
    assert "The answer holds" in page.inner_text("#outcome")
    assert page.locator("#removed button").count() == 1
    changed(page, lambda: page.click("#put-back"))
    assert value(page, "#margin") == site.explain(5)["margin"]


def test_removing_the_winning_class_changes_the_answer(page, site):
    go(page, site, "#/explain?q=5")
    winner = site.explain(5)["winner"]
    changed(page, lambda: page.locator("#classes tr.winner .cross").click())
    found = site.explain(5, classes=[winner])
    assert page.inner_text("#outcome").startswith(f"The answer changes from {winner} to ")
    if not found["rejected"]:
        assert page.inner_text("#answer").strip() == str(found["winner"])
    assert page.locator("#classes tbody tr").count() == 9


def test_a_single_class_that_is_left_cannot_lose(page, site):
    winner = site.explain(0)["winner"]
    others = ".".join(str(k) for k in range(10) if k != winner)
    go(page, site, f"#/explain?without-class={others}")
    page.click("#find-smallest")
    page.wait_for_selector("#smallest .outcome")
    assert page.inner_text("#smallest") == "Only one class is left, so no other can win."


def test_one_step_is_no_steps(page, site):
    go(page, site, "#/explain?method=NRC&max_iter=1")
    assert page.inner_text("#ending") == "1 step, as asked for"


def test_the_smallest_set_is_found_and_can_be_removed(page, site):
    answers = site.exploration.confusion(site.exploration.controls.checked({"method": "SRC"}))
    close = int(np.argmin(answers["margin"]))
    go(page, site, f"#/explain?q={close}&method=SRC&threshold=0")
    page.click("#find-smallest")
    page.wait_for_selector("#apply-smallest")
    assert re.match(r"Without \d+ samples? the nearest class is \d", page.inner_text("#smallest"))
    changed(page, lambda: page.click("#apply-smallest"))
    assert page.inner_text("#outcome").startswith("The answer changes from")
    keep_picture(page, "explorer_what_if.png", clip={"x": 0, "y": 0, "width": 1280, "height": 900})


# -------------------------------------------------------------------------------------------- confusion


def test_confusion_counts_what_the_library_answers(page, site):
    go(page, site, "#/confusion")
    answers = site.exploration.confusion(site.exploration.controls.start)
    assert page.inner_text("#accuracy").startswith(f"{answers['correct']} of 600 right")
    counts = [int(text) for text in page.locator("#matrix td button").all_inner_texts()]
    assert sum(counts) == 600
    right = [int(text) for text in page.locator("#matrix td.right button").all_inner_texts()]
    assert sum(right) == answers["correct"], "the sum of the diagonal"
    zeros = sum(
        t == a == 0 and not r for t, a, r in zip(answers["truth"], answers["answered"], answers["rejected"])
    )
    assert page.inner_text('[data-cell="0-0"]') == str(zeros)
    keep_picture(page, "explorer_confusion.png", clip={"x": 0, "y": 0, "width": 1280, "height": 900})


def test_from_a_cell_to_its_samples_to_an_explanation_and_back(page, site):
    go(page, site, "#/confusion?filter=wrong")
    cell = page.locator("#matrix td.off button").first
    count = int(cell.inner_text())
    changed(page, cell.click)
    links = page.locator("#gallery a")
    assert links.count() == count
    number = links.first.get_attribute("data-number")
    links.first.click()
    page.wait_for_selector("#headline")
    ready(page)
    assert f"q={number}" in state_of(page) or number == "0"
    page.go_back()
    page.wait_for_selector("#matrix")
    ready(page)
    assert page.locator("#gallery a").count() == count


@pytest.mark.parametrize("name", ["wrong", "close", "rejected"])
def test_filters_keep_only_such_samples(page, site, name):
    go(page, site, "#/confusion")
    answers = site.exploration.confusion(site.exploration.controls.start)
    answered = zip(answers["answered"], answers["truth"], answers["rejected"], strict=True)
    wrong = [a != t or r for a, t, r in answered]
    expected = sum({"wrong": wrong, "close": answers["close"], "rejected": answers["rejected"]}[name])
    changed(page, lambda: page.click(f"#filter-{name}"))
    counts = [int(text) for text in page.locator("#matrix td button").all_inner_texts()]
    assert sum(counts) == expected
    assert page.locator("#gallery h2").inner_text().startswith(str(expected))


# -------------------------------------------------------------------------------------- bring your own


@pytest.mark.parametrize(("digit", "strokes"), [("3", THREE), ("1", ONE)])
def test_a_drawn_digit_is_answered(page, site, digit, strokes):
    go(page, site)
    page.click("#source-drawing")
    draw(page, strokes)
    assert page.inner_text("#answer").strip() == digit
    assert page.locator("#sum-card .mark.test").inner_text() == "yours"
    if digit == "3":
        keep_picture(page, "explorer_draw.png", clip={"x": 0, "y": 0, "width": 1280, "height": 900})


def test_a_drawing_has_an_address_of_its_own(page, browser, site):
    go(page, site)
    page.click("#source-drawing")
    draw(page, THREE)
    margin, address = value(page, "#margin"), site.url + state_of(page)
    with opened(browser) as other:
        other.goto(address)
        ready(other)
        assert value(other, "#margin") == pytest.approx(margin, rel=1e-9)
    page.click("#clear")
    until(page, lambda hash_: "values=" not in hash_)


@pytest.mark.parametrize("leave", ["#clear", "#source-number"])
def test_an_answer_that_comes_late_does_not_bring_a_drawing_back(page, site, leave):
    go(page, site)
    page.click("#source-drawing")
    held = []

    def hold(route):
        held.append(route) if "drawing" in route.request.post_data else route.continue_()

    page.route("**/api/explain", hold)
    with page.expect_request(lambda request: "drawing" in (request.post_data or "")):
        page.locator("#pad").click()
    page.click(leave)
    ready(page)
    with page.expect_response(lambda answer: "drawing" in (answer.request.post_data or "")):
        for route in held:
            route.continue_()
    page.wait_for_load_state("networkidle")
    assert "values=" not in state_of(page)


def picture_file(shape=(40, 40)):
    """A dark 1 on white paper, as PNG."""
    from PIL import Image

    paper = np.full(shape, 250, dtype=np.uint8)
    paper[8:32, 18:22] = 20
    buffer = io.BytesIO()
    Image.fromarray(paper).save(buffer, "PNG")
    return buffer.getvalue()


def test_a_picture_is_chosen_and_answered(page, site):
    go(page, site)
    page.click("#source-picture")
    page.set_input_files("#file", {"name": "one.png", "mimeType": "image/png", "buffer": picture_file()})
    until(page, lambda hash_: "values=" in hash_)
    ready(page)
    assert page.inner_text("#answer").strip() == "1"


def test_a_picture_is_dropped_and_answered(page, site):
    go(page, site)
    page.click("#source-picture")
    code = base64.b64encode(picture_file()).decode()
    page.evaluate(
        """code => {
            const bytes = Uint8Array.from(atob(code), (letter) => letter.charCodeAt(0));
            const carried = new DataTransfer();
            carried.items.add(new File([bytes], "one.png", {type: "image/png"}));
            const dropped = new DragEvent("drop", {dataTransfer: carried, bubbles: true});
            document.querySelector(".drop").dispatchEvent(dropped);
        }""",
        code,
    )
    until(page, lambda hash_: "values=" in hash_)
    ready(page)
    assert page.inner_text("#answer").strip() == "1"


def test_what_is_no_picture_is_refused_in_a_sentence(page, site):
    go(page, site)
    page.click("#source-picture")
    page.set_input_files("#file", {"name": "x.png", "mimeType": "image/png", "buffer": b"not a picture"})
    page.wait_for_selector(".error:not([hidden])")
    assert "not an image" in page.inner_text(".error")
    page.errors.clear()  # the browser notes the status 400


def test_a_picture_that_is_too_large_is_refused_by_its_size(page, site):
    go(page, site)
    page.click("#source-picture")
    page.set_input_files("#file", {"name": "x.png", "mimeType": "image/png", "buffer": bytes(8_100_000)})
    page.wait_for_selector(".error:not([hidden])")
    assert "the picture has 8.1 MB, and may have 7 MB" in page.inner_text(".error")


def test_a_file_that_misses_its_place_does_not_replace_the_page(page, site):
    go(page, site)
    for kind in ("dragover", "drop"):
        stays = page.evaluate(
            """kind => {
                const carried = new DataTransfer();
                carried.items.add(new File(["x"], "one.png", {type: "image/png"}));
                const dropped = new DragEvent(kind, {dataTransfer: carried, bubbles: true, cancelable: true});
                return !document.querySelector("#headline").dispatchEvent(dropped);
            }""",
            kind,
        )
        assert stays


def test_the_back_button_finds_a_picture_that_no_address_can_hold(page, tmp_path):
    pytest.importorskip("cv2", reason="needs the extra 'images': opencv-python-headless")
    from residuum.explorer.opening import explore_model
    from residuum.models.file import open_model

    with served(explore_model(open_model(image_model(tmp_path)), "m.residuum")) as url:
        site = Site(None, url)
        go(page, site)
        margin = value(page, "#margin")
        page.click("#source-picture")
        assert "a link would not show it" in page.inner_text(".drop")
        chosen = {"name": "one.png", "mimeType": "image/png", "buffer": picture_file((64, 64))}
        page.set_input_files("#file", chosen)
        page.wait_for_selector("#sum-card .mark:text('yours')")
        ready(page)
        own = value(page, "#margin")
        assert own != margin
        changed(page, lambda: page.locator("#carriers .remove").first.click())
        changed(page, page.go_back)
        assert page.inner_text("#sum-card .mark >> nth=0") == "yours"
        assert value(page, "#margin") == own
        page.click("#source-number")  # its address is that of the picture
        page.wait_for_selector("#number")
        page.wait_for_selector("#sum-card .mark:text('left out')")
        page.go_back()
        page.wait_for_selector("#sum-card .mark:text('yours')")


def test_a_pasted_row_is_answered(page, people):
    go(page, people)
    page.click("#source-row")
    row = people.exploration.held_out.features[7]
    page.fill("#row", ", ".join(f"{number:.6f}" for number in row))
    changed(page, lambda: page.click("#ask-row"))
    assert page.inner_text("#answer").strip() == "person 07"
    assert page.locator("#features tbody tr").count() == 12
    page.reload()
    ready(page)
    assert page.inner_text("#answer").strip() == "person 07"


def test_a_question_that_is_refused_leaves_no_older_answer_on_the_page(page, people):
    go(page, people)
    page.click("#source-row")
    page.fill("#row", "hello")
    changed(page, lambda: page.click("#ask-row"))
    page.wait_for_selector(".error:not([hidden])")
    assert (
        not page.locator("#headline, #sum-card, #classes-card, #features-card").filter(visible=True).count()
    )
    page.errors.clear()  # the browser notes the status 400
    changed(page, page.go_back)
    assert page.locator("#headline").is_visible()
    assert not page.locator(".error").is_visible()


def test_a_number_that_no_sample_has_is_put_right(page, site):
    go(page, site, "#/explain?q=4")
    for wrong in ("99999", "0", ""):
        page.fill("#number", wrong)
        page.press("#number", "Enter")
        assert page.input_value("#number") == "5"


# --------------------------------------------------------------------------------- addresses and history


def test_a_link_leads_to_every_part_of_a_state(page, site):
    first = site.explain(9)["atoms"][0]["sample"]
    go(
        page,
        site,
        f"#/explain?q=9&method=CRC&l2=0.02&rule=residual&threshold=0.2&without={first}&without-class=8",
    )
    asked = {"method": "CRC", "parameters": {"l2": 0.02, "rule": "residual"}, "threshold": 0.2}
    found = site.explain(9, asked, samples=[first], classes=[8])
    assert value(page, "#margin") == found["margin"]
    assert page.input_value("#method") == "CRC"
    assert page.input_value("#rule") == "residual"
    assert page.locator("#removed button").count() == 2


def test_a_spoiled_address_shows_the_usual_page(page, site):
    go(page, site, "#/nowhere?q=-5&method=magic&l2=abc&values=***&without=x.y")
    assert page.locator("#answer").is_visible()


def test_the_back_button_goes_through_samples_and_settings(page, site):
    go(page, site, "#/explain?q=5")
    margins = [value(page, "#margin")]
    changed(page, lambda: page.click("#next"))
    margins.append(value(page, "#margin"))
    changed(page, lambda: page.click("#preset-CRC"))
    changed(page, lambda: slide(page, "l2", 100))
    for expected in ("method=CRC", "q=6", "q=5"):
        page.go_back()
        until(page, lambda hash_, part=expected: hash_.endswith(part))
        ready(page)
    assert value(page, "#margin") == margins[0]
    page.go_forward()
    until(page, lambda hash_: hash_.endswith("q=6"))
    ready(page)
    assert value(page, "#margin") == margins[1]


def test_keys_move_between_samples_and_views(page, site):
    go(page, site, "#/explain?q=5")
    changed(page, lambda: page.keyboard.press("ArrowRight"))
    assert "q=6" in state_of(page)
    changed(page, lambda: page.keyboard.press("ArrowLeft"))
    changed(page, lambda: page.keyboard.press("c"))
    page.wait_for_selector("#matrix")
    changed(page, lambda: page.keyboard.press("e"))
    page.wait_for_selector("#headline")
    page.focus("#l2")
    changed(page, lambda: page.keyboard.press("ArrowRight"))
    assert "l2=" in state_of(page), "in a slider the arrows move the slider"


# ------------------------------------------------------------------------------ tables, classes, names


def test_embeddings_show_features_and_differences(page, people):
    go(page, people)
    found = people.explain(0)
    first = found["comparison"]["features"][0]
    assert page.locator("#features tbody th").first.inner_text() == first["name"]
    shown = values(page, "#features tbody tr:first-child td")
    assert shown[0] == first["query"]
    assert shown[1] == first["winner"]["value"]
    assert page.locator(".sum img").count() == 0
    keep_picture(page, "explorer_features.png", clip={"x": 0, "y": 0, "width": 1280, "height": 900})


def test_forty_classes_stay_readable(page, people):
    go(page, people)
    assert page.locator("#classes tbody tr").count() == 12
    page.click("#more-classes")
    assert page.locator("#classes tbody tr").count() == 40
    page.goto(people.url + "#/confusion")
    page.wait_for_selector("#matrix")
    ready(page)
    assert page.locator("#matrix tbody tr").count() == 40
    heights = page.locator("#matrix tbody tr").evaluate_all("rows => rows.map(row => row.offsetHeight)")
    assert max(heights) < 40
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_hostile_names_are_text(page, hostile):
    for view in ("#/explain", "#/confusion"):
        page.goto(hostile.url + view)
        ready(page)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("window.hacked") is None
        assert page.locator("img[src=x]").count() == 0
        assert HOSTILE[0] in page.inner_text("body")
    assert page.title().startswith(HOSTILE[0])


# --------------------------------------------------------------------------------- theme, size, reading


def test_both_themes_and_the_switch(browser, site):
    grounds = {}
    for scheme in ("light", "dark"):
        with opened(browser, color_scheme=scheme) as page:
            go(page, site)
            grounds[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
            if scheme == "dark":
                keep_picture(page, "explorer_dark.png")
                page.select_option("#theme", "light")
                assert page.evaluate("getComputedStyle(document.body).backgroundColor") == grounds["light"]
                page.reload()
                ready(page)
                assert page.evaluate("getComputedStyle(document.body).backgroundColor") == grounds["light"]
    assert grounds["light"] != grounds["dark"]


@pytest.mark.parametrize("view", ["#/explain?q=5", "#/confusion", "#/explain?source=drawing"])
def test_400_pixels_are_wide_enough(browser, site, view):
    with opened(browser, viewport={"width": 400, "height": 800}) as page:
        go(page, site, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_tables_fit_400_pixels_too(browser, people):
    with opened(browser, viewport={"width": 400, "height": 800}) as page:
        go(page, people)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400


@pytest.mark.parametrize("view", ["#/explain", "#/confusion"])
@pytest.mark.parametrize("width", [400, 1280])
def test_long_names_and_large_pictures_stay_in_their_cards(browser, birds, view, width):
    with opened(browser, viewport={"width": width, "height": 800}) as page:
        go(page, birds, view)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        beyond = "cards => cards.filter((card) => card.scrollWidth > card.clientWidth + 1).length"
        assert page.locator(".gallery a, .carriers li").evaluate_all(beyond) == 0


def test_on_paper_the_controls_are_gone(page, site):
    go(page, site)
    page.emulate_media(media="print")
    assert not page.locator("#method").is_visible()
    assert not page.locator("nav").is_visible()
    assert not page.locator("button, select, input, textarea").filter(visible=True).count()
    assert page.locator("#answer").is_visible()
    headings = page.locator("h2").filter(visible=True).all_inner_texts()
    assert "Certificate" in headings
    assert not {"Question", "What if?"} & set(headings), "a heading of nothing"


@functools.cache
def axe():
    """axe-core from npm, in a temporary folder of its own."""
    import tempfile

    npm = shutil.which("npm")
    if npm is None:
        return None
    folder = tempfile.mkdtemp(prefix="axe-")
    command = [
        npm,
        "install",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--prefix",
        folder,
        "axe-core@4",
    ]
    found = Path(folder) / "node_modules" / "axe-core" / "axe.min.js"
    ended = subprocess.run(command, capture_output=True, timeout=240, check=False)
    script = found.read_text() if ended.returncode == 0 and found.exists() else None
    shutil.rmtree(folder, ignore_errors=True)
    return script


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["#/explain?q=5", "#/confusion?filter=wrong", "#/explain?source=drawing"])
def test_axe_finds_nothing_serious(browser, site, view, scheme):
    script = axe()
    if script is None:
        pytest.skip("axe-core cannot be had: no npm, or its registry does not answer")
    with opened(browser, color_scheme=scheme) as page:
        go(page, site, view)
        page.evaluate(script)
        found = page.evaluate("axe.run(document)")
    serious = [
        (one["id"], one["nodes"][0]["html"][:120])
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert not serious


# ------------------------------------------------------------------------------------------- the server


def test_nothing_is_asked_of_another_machine(page, site):
    go(page, site)
    page.goto(site.url + "#/confusion")
    ready(page)
    page.wait_for_load_state("networkidle")
    assert len(page.requests) > 20
    assert all(url.startswith((site.base, "data:")) for url in page.requests)
    policy = httpx.get(site.base + "/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_without_the_token_the_page_says_what_to_do(browser, site):
    with opened(browser) as page:
        page.goto(site.base + "/")
        page.wait_for_selector(".error")
        assert "token" in page.inner_text(".error")
    for path in ("/api/summary", "/api/pictures/train/0"):
        assert httpx.get(site.base + path).status_code == 401
    assert (
        site.post("/api/explain", {"query": {"number": 0}}, headers={"authorization": "Bearer x"}).status_code
        == 401
    )


def test_a_foreign_host_and_a_foreign_origin_are_refused(site):
    assert httpx.get(site.base + "/", headers={"host": "evil.example"}).status_code == 421
    answer = site.post("/api/explain", {"query": {"number": 0}}, headers={"origin": "http://evil.example"})
    assert answer.status_code == 403


def test_a_body_of_more_than_10_mb_is_refused_and_the_page_goes_on(page, site):
    large = b'{"query": {"picture": "' + b"A" * (10 * 2**20) + b'"}}'
    answer = site.post("/api/explain", content=large)
    assert answer.status_code == 413
    assert answer.json()["error"]
    go(page, site)
    assert page.locator("#answer").is_visible()


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"query": None},
        {"query": {"number": -1}},
        {"query": {"number": 10**12}},
        {"query": {"number": "0"}},
        {"query": {"number": 0, "row": "1"}},
        {"query": {"values": [1, 2]}},
        {"query": {"values": [0] * 64}},
        {"query": {"values": [1e400] * 64}},
        {"query": {"values": [10**400] * 64}},
        {"query": {"row": "1,2"}},
        {"query": {"row": "a\x00b"}},
        {"query": {"drawing": {"width": 10**9, "height": 10**9, "ink": ""}}},
        {"query": {"drawing": {"width": 8, "height": 8, "ink": "A" * 12}}},
        {"query": {"picture": "%%%"}},
        {"query": {"number": 0}, "settings": {"method": ["SRC"]}},
        {"query": {"number": 0}, "settings": {"parameters": {"l2": {}}}},
        {"query": {"number": 0}, "removed": {"samples": [[0]]}},
        {"query": {"number": 0}, "removed": {"classes": list(range(10))}},
        {"query": {"number": 0}, "more": 1},
    ],
)
def test_bad_questions_get_one_sentence(site, body):
    content = json.dumps(body).replace("Infinity", "1e400").encode()
    for path in ("/api/explain", "/api/smallest"):
        answer = site.post(path, content=content)
        assert 400 <= answer.status_code < 500
        assert answer.status_code != 422, "an unexpected error"
        assert "\n" not in answer.json()["error"]


def test_files_beside_the_page_cannot_be_had(site):
    for path in ("/page/..%2fapp.py", "/page/../app.py", "/page/app.py", "/api/pictures/train/../../x"):
        headers = {"authorization": f"Bearer {site.token}"}
        assert httpx.get(site.base + path, headers=headers).status_code in (401, 404)


# ------------------------------------------------------------------------------------------ the command


def started(*arguments, cwd=None):
    command = [sys.executable, "-m", "residuum", "explore", "--no-browser", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd)


def ended(process):
    process.terminate()
    process.communicate()
    return process.returncode


def test_the_command_prints_the_address_and_answers(page):
    process = started()
    try:
        url = process.stdout.readline().split()[-1]
        page.goto(url)
        ready(page)
        assert page.inner_text("h1") == "Handwritten digits"
        assert page.locator("#source-drawing").is_visible()
        page.goto("about:blank")  # nothing asks a server that has ended
    finally:
        assert ended(process) == 0


def test_the_command_takes_a_model_and_data(page, tmp_path):
    rng = np.random.default_rng(0)
    rows = [",".join(["height", "width", "kind"])]
    rows += [f"{a:.3f},{b:.3f},{'wide' if b > a else 'tall'}" for a, b in rng.uniform(1, 9, size=(60, 2))]
    table = tmp_path / "shapes.csv"
    table.write_text("\n".join(rows) + "\n")
    fit = [sys.executable, "-m", "residuum", "fit", str(table), "--out", str(tmp_path / "shapes.residuum")]
    subprocess.run(fit, check=True, capture_output=True)
    for name, words in (
        ("shapes.csv", "held-out samples"),
        ("shapes.residuum", "each coded over the others"),
    ):
        process = started(str(tmp_path / name))
        try:
            page.goto(process.stdout.readline().split()[-1])
            ready(page)
            assert page.inner_text("h1") == name
            assert words in page.inner_text(".position")
            assert page.locator("#features tbody tr").count() == 2
            page.goto("about:blank")
        finally:
            assert ended(process) == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["nowhere.csv"], 3), (["--test", "x.csv"], 2), (["--port", "99999"], 2), (["x.residuum"], 3)],
)
def test_wrong_calls_end_with_one_line(arguments, code, tmp_path):
    process = started(*arguments, cwd=tmp_path)
    out, error = process.communicate()
    assert process.returncode == code
    assert not out
    assert error.startswith("Error: ")
    assert len(error.strip().splitlines()) == 1
