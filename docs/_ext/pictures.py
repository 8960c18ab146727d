"""The directive ``picture``: a figure drawn at build time as SVG in the page, in the colours of the theme.

``{picture} name`` runs ``draw(figure)`` of docs/figures/name.py, which returns what the picture shows in
words; those become its text alternative. The content of the directive is the caption. ``:needs:`` names
stored figures without which the picture is left out.
"""

import importlib.util
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from residuum.reports.plots import _figure, _svg


class Picture(SphinxDirective):
    """Draw the figure of a script."""

    required_arguments = 1
    has_content = True
    option_spec = {"needs": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        name, needed = self.arguments[0], self.options.get("needs")
        if needed and not (Path(self.env.srcdir) / needed).is_file():
            return [
                nodes.paragraph("", f"There is no picture here, because docs/{needed} is not stored yet.")
            ]
        path = Path(self.env.srcdir) / "figures" / f"{name}.py"
        self.env.note_dependency(str(path))
        if str(path.parent) not in sys.path:
            sys.path.append(str(path.parent))
        spec = importlib.util.spec_from_file_location(f"figures_{name}", path)
        script: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(script)
        width, height = script.SIZE  # in inches of a report; drawn smaller here, so that texts are larger
        with _figure(name, 0.85 * width, 0.85 * height) as figure:
            svg = _svg(figure, script.draw(figure))
        box = nodes.container(classes=["figure-with-text"])
        box += nodes.raw("", f'<figure class="figure-with-text">{svg}', format="html")
        if self.content:
            box += nodes.raw("", "<figcaption>", format="html")
            box += self.parse_content_to_nodes()
            box += nodes.raw("", "</figcaption>", format="html")
        box += nodes.raw("", "</figure>", format="html")
        return [box]


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
