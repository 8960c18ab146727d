"""The command ``residuum``: a group of sub-commands, each loaded when it is called.

This module imports nothing heavier than click, so that ``residuum --help`` answers at once.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from residuum import __version__
from residuum.errors import InterruptedRunError, ResiduumError

# Name -> ("module:attribute", one line of help). To add a command, write one file here and add one line.
COMMANDS: dict[str, tuple[str, str]] = {
    "bench": ("residuum.cli.bench:bench", "Time the exact engine against its peers."),
    "compare": ("residuum.cli.compare:compare", "Compare classifiers on your data or digits."),
    "data": ("residuum.cli.data:data", "List, fetch, import and verify data sets."),
    "doctor": ("residuum.cli.doctor:doctor", "Show versions, BLAS, threads and optional extras."),
    "evaluate": ("residuum.cli.evaluate:evaluate", "Compare a model's answers with labelled data."),
    "explain": ("residuum.cli.explain:explain", "Say why a model gave one row its label."),
    "features": ("residuum.cli.features:features", "Turn a folder of images into features."),
    "fit": ("residuum.cli.fit:fit", "Fit a model to your own data and save it."),
    "predict": ("residuum.cli.predict:predict", "Answer new data by a saved model."),
    "reproduce": ("residuum.cli.reproduce:reproduce", "Run the tables and figures of the paper again."),
    "results": ("residuum.cli.results:results", "Write a page of results from run folders."),
}


def _set_debug(context: click.Context, _option: click.Parameter, value: bool) -> None:
    if value:
        context.find_root().ensure_object(dict)["debug"] = True


# The group and every command have it, so that it can be appended to a command line that failed.
DEBUG = click.Option(
    ["--debug"],
    is_flag=True,
    expose_value=False,
    callback=_set_debug,
    help="Show the traceback of an unexpected error.",
)


def _accept_debug(command: click.Command) -> None:
    if DEBUG not in command.params:
        command.params.append(DEBUG)
    for subcommand in command.commands.values() if isinstance(command, click.Group) else ():
        _accept_debug(subcommand)


class LazyGroup(click.Group):
    """A group whose commands are named in COMMANDS and imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of COMMANDS."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name][0].split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        _accept_debug(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with the help of COMMANDS, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    params=[DEBUG],
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="residuum")
@click.pass_context
def cli(context: click.Context) -> None:
    """Classify by representation: a query is coded over the training samples, and the class whose samples
    leave the smallest residual wins.

    Start with: residuum compare
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code (see residuum.errors)."""
    settings = {"debug": False}
    _prepare_streams()
    try:
        with _sigterm_interrupts():
            code = cli.main(args=args, prog_name="residuum", standalone_mode=False, obj=settings)
            sys.stdout.flush()
    except BrokenPipeError:
        code = 1  # the reader of the output has closed it, for example `| head`: there is nothing to say
    except BaseException as error:
        code = _report(error, debug=settings["debug"])
    _release_stdout()
    if args is None and code == InterruptedRunError.exit_code and threading.active_count() > 1:
        # A thread still in compiled code when the interpreter ends would crash the process with a signal.
        sys.stderr.flush()
        os._exit(code)
    return code if isinstance(code, int) else 0


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


def _report(error: BaseException, *, debug: bool) -> int:
    """Print what went wrong in one line to stderr and return the exit code."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if debug and not isinstance(error, click.exceptions.ClickException | click.Abort):
        traceback.print_exception(error)
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return _say("Interrupted.", InterruptedRunError.exit_code)
    if isinstance(error, InterruptedRunError):
        return _say(f"Interrupted. {error}", error.exit_code)
    if isinstance(error, ResiduumError):
        return _say(f"Error: {error}", error.exit_code)
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        hint = f" Try '{context.command_path} --help'." if context else ""
        return _say(f"Error: {error.format_message()}{hint}", error.exit_code)
    if isinstance(error, OSError) and error.strerror:
        where = f": {os.fsdecode(error.filename)}" if isinstance(error.filename, str | bytes) else ""
        return _say(f"Error: {error.strerror}{where}", 1)
    again = "" if debug else " Run again with --debug for the traceback."
    return _say(f"Error: unexpected {type(error).__name__}: {error}.{again}", 1)


def _say(text: str, code: int) -> int:
    click.echo(" ".join(text.split()), err=True)
    return code


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that no half-written file stays behind."""
    try:
        before: Any = signal.signal(signal.SIGTERM, signal.default_int_handler)
    except ValueError:  # only the main thread may set signal handlers
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
