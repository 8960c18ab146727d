"""The directive ``commands``: shell lines that run at build time, and what they print.

All blocks of a page share one folder, which a script named by the option ``:prepare:`` fills first. A line
that fails makes the build fail.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

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
            subprocess.run([sys.executable, str(script)], cwd=folder, check=True)
        return folder

    def _output(self, line: str, folder: Path) -> list[str]:
        environment = {**os.environ, "COLUMNS": "96", "NO_COLOR": "1", "TERM": "dumb"}
        command = line.replace("residuum ", f"{sys.executable} -m residuum ", 1)
        done = subprocess.run(
            command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ExtensionError(f"{self.env.docname}: {line!r} ended with {done.returncode}: {done.stderr}")
        text = re.sub(r"[^\S\n]+$", "", done.stdout + done.stderr, flags=re.MULTILINE).strip("\n")
        lines = text.replace(str(folder) + "/", "").split("\n") if text else []
        most = self.options.get("most")
        return lines if most is None or len(lines) <= most else [*lines[:most], "..."]


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
