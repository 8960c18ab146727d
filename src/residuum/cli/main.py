"""The command ``residuum``: a group of sub-commands, each loaded when it is called.

This module imports nothing heavier than click, so that ``residuum --help`` answers at once.
"""

from __future__ import annotations

import _thread
import errno
import importlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from residuum import __version__
from residuum.errors import InterruptedRunError, ResiduumError
from residuum.system.progress import progress_bars

# Name -> one line of help. To add a command, write one file of this name here and add one line.
COMMANDS = {
    "bench": "Time the exact engine against its peers.",
    "compare": "Compare classifiers on your data or digits.",
    "data": "List, fetch, import and verify data sets.",
    "doctor": "Show versions, BLAS, threads and optional extras.",
    "episodes": "Compare few-shot and open-set answers on embeddings.",
    "evaluate": "Compare a model's answers with labelled data.",
    "explain": "Say why a model gave one row its label.",
    "explore": "See why, live, in a browser.",
    "features": "Turn a folder of images into features.",
    "fit": "Fit a model to your own data and save it.",
    "predict": "Answer new data by a saved model.",
    "reproduce": "Run the tables and figures of the paper again.",
    "results": "Write a page of results from run folders.",
    "serve": "Answer programs over HTTP by a saved model.",
    "shard": "Write a dictionary in shards, of any size.",
}


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # what a place says that has no room left


class LazyGroup(click.Group):
    """A group whose commands are named in COMMANDS and imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of COMMANDS."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        return getattr(importlib.import_module(f"residuum.cli.{cmd_name}"), cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with the help of COMMANDS, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="residuum")
def cli() -> None:
    """Classify by representation: a query is coded over the training samples, and the class whose samples
    leave the smallest residual wins.

    Start with: residuum compare

    Any command takes --debug, which shows the traceback of an unexpected error.
    """


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code (see residuum.errors)."""
    global _ending
    _ending, hook = False, sys.unraisablehook
    if args is None:
        _take_signals(_interrupt)
        sys.unraisablehook = _ask_again
    words = list(sys.argv[1:] if args is None else args)
    debug = "--debug" in words
    try:
        _prepare_streams()
        words = [word for word in words if word != "--debug"] or ["--help"]
        with progress_bars():
            code = cli.main(words, prog_name="residuum", standalone_mode=False)
        sys.stdout.flush()
        _ending = True
        if _arrived:  # a library dropped the interrupt
            code = InterruptedRunError.exit_code
            click.echo("Interrupted. The work was done before the signal could be obeyed.", err=True)
    except BrokenPipeError:
        _ending = True
        code = 1  # the reader of the output has closed it, for example `| head`: there is nothing to say
    except (Exception, KeyboardInterrupt) as error:
        _ending = True
        code = _report(error, debug=debug)
    _release_stdout()
    if args is None:
        _take_signals(signal.SIG_IGN if _arrived else signal.SIG_DFL)
        sys.unraisablehook = hook
    if args is None and code == InterruptedRunError.exit_code and threading.active_count() > 1:
        # A thread still in compiled code when the interpreter ends would crash the process with a signal.
        sys.stderr.flush()
        os._exit(code)
    return code if isinstance(code, int) else 0


_arrived: list[int] = []  # signals that asked this process to end
_ending = False  # it does so already: another signal changes nothing


def _interrupt(number: int, frame: object) -> None:
    """Treat SIGTERM like Ctrl-C, so that no half-written file stays behind; remember that it came."""
    _arrived.append(number)
    if not _ending:
        raise KeyboardInterrupt


def _ask_again(dropped: Any) -> None:
    """Repeat a signal whose interrupt Python dropped, as it does in finalizers, for one."""
    if isinstance(dropped.exc_value, KeyboardInterrupt) and _arrived:
        # A moment later, since a handler that ran at once would run in the same place.
        threading.Timer(0.01, _signal_main_thread, _arrived[-1:]).start()
    else:
        sys.__unraisablehook__(dropped)


def _signal_main_thread(number: int) -> None:
    main_thread = threading.main_thread().ident
    if main_thread and hasattr(signal, "pthread_kill"):  # it ends a system call that waits, too
        signal.pthread_kill(main_thread, number)
    else:
        _thread.interrupt_main(signal.Signals(number))


def _take_signals(handler: Callable[[int, object], None] | signal.Handlers) -> None:
    """Set what SIGTERM and Ctrl-C do, but for a Ctrl-C that the shell has ignored, as in the background."""
    signal.signal(signal.SIGTERM, handler)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, handler)


def _prepare_streams() -> None:
    """Replace a stdout that the caller closed, and never fail on a character that cannot be shown."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _release_stdout() -> None:
    """Send what is left to nowhere if stdout is closed or full, since Python flushes it once more at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _folder_is_gone() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _report(error: BaseException, *, debug: bool) -> int:
    """Print what went wrong in one line to stderr and return the exit code."""
    code = getattr(error, "exit_code", 1)
    if debug and not isinstance(error, click.ClickException | click.Abort):
        traceback.print_exception(error)
    if isinstance(error, click.Abort | KeyboardInterrupt) or (
        _arrived and not isinstance(error, InterruptedRunError)
    ):  # an error after a signal is what became of the interrupt
        code, text = InterruptedRunError.exit_code, "Interrupted."
    elif isinstance(error, InterruptedRunError):
        text = f"Interrupted. {error}"
    elif isinstance(error, ResiduumError):
        text = f"Error: {error}"
    elif isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        hint = f" Try '{context.command_path} --help'." if context else ""
        text = f"Error: {error.format_message()}{hint}"
    elif isinstance(error, FileNotFoundError) and error.filename is None and _folder_is_gone():
        text = "Error: The current folder was deleted. Change to one that exists, and run the command again."
    elif isinstance(error, OSError) and error.strerror:
        where = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
        if not where and error.errno in _FULL:
            where = "standard output"  # files are written by `written_whole`, which names them
        text = f"Error: {error.strerror}{': ' * bool(where)}{where}"
    else:
        again = "" if debug else " Run again with --debug for the traceback."
        text = f"Error: unexpected {type(error).__name__}: {error}.{again}"
    click.echo(" ".join(text.split()), err=True)
    return code
