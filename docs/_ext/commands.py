"""The directive ``commands``: lines that call residuum at build time, and what they print.

All blocks of a page share one folder, which a script named by the option ``:prepare:`` fills first. A line
that fails makes the build fail.
"""

import contextlib
import io
import os
import re
import runpy
import shlex
import tempfile
import unittest.mock
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from residuum.cli.main import main

_FOLDERS: dict[str, tempfile.TemporaryDirectory[str]] = {}


class Commands(SphinxDirective):
    """Run lines and show their output, cut to ``:most:`` lines."""

    has_content = True
    option_spec = {"prepare": directives.unchanged, "most": directives.nonnegative_int}

    def run(self) -> list[nodes.Node]:
        folder = self._folder()
        shown = []
        for line in self.content:
            if not line.strip():
                continue
            shown.append(f"$ {line}")
            shown += self._output(line, folder)
        block = nodes.literal_block("", "\n".join(shown), language="console")
        block["classes"].append("console-output")
        return [block]

    def _folder(self) -> Path:
        page = self.env.docname
        if page not in _FOLDERS:
            _FOLDERS[page] = tempfile.TemporaryDirectory()
        folder = Path(_FOLDERS[page].name)
        if "prepare" in self.options:
            script = Path(self.env.srcdir) / "figures" / f"{self.options['prepare']}.py"
            self.env.note_dependency(str(script))
            with contextlib.chdir(folder):
                runpy.run_path(str(script))
        return folder

    def _output(self, line: str, folder: Path) -> list[str]:
        words, said = shlex.split(line), io.StringIO()
        if words[0] != "residuum":
            raise ExtensionError(f"{self.env.docname}: {line!r} is no call of residuum")
        plain = {"COLUMNS": "96", "NO_COLOR": "1", "TERM": "dumb"}
        with (
            contextlib.chdir(folder),
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
            unittest.mock.patch.dict(os.environ, plain),
        ):
            code = main(words[1:])
        if code:
            raise ExtensionError(f"{self.env.docname}: {line!r} ended with {code}: {said.getvalue()}")
        text = re.sub(r"[^\S\n]+$", "", said.getvalue(), flags=re.MULTILINE).strip("\n")
        lines = text.replace(str(folder) + "/", "").split("\n") if text else []
        most = self.options.get("most")
        return lines if most is None or len(lines) <= most else [*lines[:most], "..."]


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
