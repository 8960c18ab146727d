"""Figures of stored runs in README and docs/*.md: write them, and check that the text has them.

    python docs/numbers_in_text.py            # writes the blocks of all pages from docs/data/*.json
    python docs/numbers_in_text.py --keep     # and keeps the figures that have no stored run, as they are now
    python docs/numbers_in_text.py --check    # says what differs; a test does the same

A block of a page stands between ``<!-- run: NAME -->`` and ``<!-- end -->``. The function NAME of
`stored_figures` writes what is between them from the raw numbers of docs/data. Figures outside of such blocks
come from runs whose raw output was not kept. docs/data/earlier_runs.json holds them section by section, so
that none changes unnoticed; docs/data/README.md says which they are.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from stored_figures import RENDER

DOCS = Path(__file__).parent
ROOT = DOCS.parent
EARLIER = DOCS / "data" / "earlier_runs.json"
# Pages with figures of their own. Others quote these, which tests/test_docs.py checks.
MEASURED = ("README.md", *(f"docs/{name}.md" for name in (
    "battery", "descendants", "embeddings", "explorer", "images", "least_squares", "measurements",
    "reproduction", "results", "scale", "serve",
)))  # fmt: skip
BLOCK = re.compile(r"(<!-- run: (\w+) -->\n).*?(?<=\n)(<!-- end -->)", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])[-+−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")


def pages() -> Iterator[Path]:
    """README and the pages of docs."""
    yield ROOT / "README.md"
    yield from sorted(DOCS.glob("*.md"))


def filled(text: str) -> str:
    """A page with its blocks written from the stored runs."""
    return BLOCK.sub(lambda block: block[1] + RENDER[block[2]]() + "\n" + block[3], text)


def sections(text: str) -> dict[str, str]:
    """Heading -> all numbers under it, in their order, blocks of stored runs and program code left out."""
    text = re.sub(r"```.*?```|`[^`\n]*`|\]\([^)]*\)", " ", BLOCK.sub("", text), flags=re.DOTALL)
    found: dict[str, str] = {}
    for part in re.split(r"^(?=#+ )", text, flags=re.MULTILINE):
        head, _, body = part.partition("\n")
        numbers = " ".join(NUMBER.findall(body))
        if numbers:
            found[head.strip("# ")] = (
                f"{found[head.strip('# ')]} {numbers}" if head.strip("# ") in found else numbers
            )
    return found


def kept() -> dict[str, dict[str, str]]:
    """Page -> heading -> numbers, as the pages are now."""
    return {name: sections((ROOT / name).read_text(encoding="utf-8")) for name in MEASURED}


def differences() -> list[str]:
    """What the text has that no run has."""
    found = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for block in BLOCK.finditer(text):
            if filled(block[0]) != block[0]:
                found.append(f"{page.name}: the block '{block[2]}' differs from the stored run")
    earlier = json.loads(EARLIER.read_text(encoding="utf-8"))
    for page, now in kept().items():
        for heading in sorted(now.keys() | earlier[page].keys()):
            if now.get(heading) != earlier[page].get(heading):
                found.append(
                    f"{page}: under '{heading}' {_first_change(now.get(heading), earlier[page].get(heading))}"
                )
    return found


def _first_change(now: str | None, then: str | None) -> str:
    ours, theirs = (now or "").split(), (then or "").split()
    at = next(
        (i for i, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]), min(len(ours), len(theirs))
    )
    return f"the text has {ours[at : at + 3]}, the record {theirs[at : at + 3]}"


def main() -> int:
    """Write, keep or check."""
    if "--check" in sys.argv:
        found = differences()
        print("\n".join(found) or "The text has the figures of the runs.")
        return bool(found)
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if filled(text) != text:
            page.write_text(filled(text), encoding="utf-8")
            print(f"{page.name} is written")
    if "--keep" in sys.argv:
        EARLIER.write_text(json.dumps(kept(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
