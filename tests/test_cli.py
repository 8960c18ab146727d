"""The command as a user meets it: exit codes, one-line errors, pipes, signals, run folders."""

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

import residuum
from residuum.cli import main as cli
from residuum.cli.input_output import output_file
from residuum.errors import DataError, NotConvergedError, UsageError

COMMAND = [sys.executable, "-m", "residuum"]
QUICK = ["compare", "--methods", "crc,nsc", "--trials", "2", "--train-per-class", "5"]
HEAVY = ("numpy", "scipy", "sklearn", "numba", "matplotlib", "rich")


@pytest.fixture
def shell(tmp_path):
    """Run the command in an empty folder, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(Path(residuum.__file__).parents[1])}
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "PYTHONUNBUFFERED", "RESIDUUM_DATA"):
        environment.pop(name, None)

    def run(*args, **kwargs):
        kwargs = {"capture_output": True, "text": True, "timeout": 120, **kwargs}
        done = subprocess.run([*COMMAND, *args], cwd=tmp_path, env=environment, check=False, **kwargs)
        if done.stderr:  # whether the engine still has to be compiled is not the command's doing
            done.stderr = re.sub(r"^residuum: compiling .*\n", "", done.stderr, flags=re.MULTILINE)
        return done

    run.cwd, run.env = tmp_path, environment
    return run


@pytest.fixture
def inside(tmp_path, monkeypatch, capsys):
    """Run the command in an empty folder, in this process: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(*args):
        code = cli.main(args)
        return code, *capsys.readouterr()

    return run


def loaded_after(code):
    check = f"{code}\nimport sys\nprint(*[m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    return done.stderr.split()


def test_help_and_import_load_nothing_heavy():
    assert loaded_after("import residuum; dir(residuum)") == []
    commands = "from residuum.cli.main import COMMANDS, main\nfor name in COMMANDS: main([name, '--help'])"
    assert loaded_after(f"{commands}\nmain(['--help'])") == []


def test_public_names_are_all_there_and_no_other():
    assert set(residuum.__all__) <= set(dir(residuum))
    assert residuum.NRC is residuum.__getattr__("NRC")
    for name in residuum.__all__:
        assert getattr(residuum, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'magic'"):
        _ = residuum.magic


def test_every_listed_command_loads_and_has_help():
    result = CliRunner().invoke(cli.cli, ["--help"])
    assert result.exit_code == 0
    assert "--debug" in result.output
    for name, text in cli.COMMANDS.items():
        assert re.search(rf"{name} +{re.escape(text)}", result.output)
        assert CliRunner().invoke(cli.cli, [name, "--help"]).exit_code == 0


def test_no_argument_shows_help_and_version_is_the_packages(capsys):
    assert cli.main([]) == 0
    assert "Commands:" in capsys.readouterr().out
    assert cli.main(["--version"]) == 0
    assert residuum.__version__ in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["--nonsense"], "No such option"),
        (["compare", "--trials", "many"], "'many' is not a valid integer"),
        (["compare", "--trials", "0"], "trials must be from 1 to 1000. Got 0."),
        (["compare", "--train-per-class", "174"], "must be from 1 to 173"),
        (["compare", "--train-per-class", "-3"], "Got -3"),
        (["compare", "--seed", "-1"], "seed must be from 0"),
        (["compare", "--n-jobs", "0"], "n_jobs must be -1"),
        (
            ["compare", "--methods", "NRC,magic"],
            "kNN, boosting, NSC, SRC, CRC, CROC, ProCRC, NRC, SoftNRC, SimplexRC, CRNRC. Got magic.",
        ),
        (["compare", "--methods", ""], "Got an empty list"),
        (["compare", "a.csv", "surplus"], "unexpected extra argument"),
        (["compare", "--out", ""], "out must name a folder"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(args, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(args) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Error: ")
    assert words in captured.err
    assert captured.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (UsageError("bad rho"), 2, "Error: bad rho"),
        (DataError("no such file"), 3, "Error: no such file"),
        (NotConvergedError("3 queries"), 4, "Error: 3 queries"),
        (KeyboardInterrupt(), 130, "Interrupted."),
        (PermissionError(13, "Permission denied", "/there"), 1, "Error: Permission denied: /there"),
        (
            ZeroDivisionError("by\nzero"),
            1,
            "Error: unexpected ZeroDivisionError: by zero. Run again with --debug",
        ),
    ],
)
def test_errors_of_a_command_become_one_line_and_a_code(error, code, words, capsys, monkeypatch):
    from residuum.cli.doctor import doctor

    def fail(**_options):
        raise error

    monkeypatch.setattr(doctor, "callback", fail)
    assert cli.main(["doctor"]) == code
    captured = capsys.readouterr().err
    assert words in captured
    assert "Traceback" not in captured
    assert captured.strip().count("\n") == 0


@pytest.mark.parametrize("args", [["--debug", "doctor"], ["doctor", "--debug"]])
def test_debug_shows_the_traceback(args, capsys, monkeypatch):
    from residuum.cli.doctor import doctor

    monkeypatch.setattr(doctor, "callback", lambda **_options: 1 / 0)
    assert cli.main(args) == 1
    assert "Traceback" in (captured := capsys.readouterr().err)
    assert "Run again" not in captured


def test_doctor(inside, tmp_path, monkeypatch):
    monkeypatch.setenv("RESIDUUM_DATA", str(tmp_path / "nowhere"))
    code, text, _ = inside("doctor")
    assert code == 0
    assert "numpy" in text
    assert re.search(r"blas +\w+ .*threads", text)
    assert f"{tmp_path / 'nowhere'} (does not exist yet; from RESIDUUM_DATA)" in text
    facts = json.loads(inside("doctor", "--json")[1])
    assert facts["residuum"] == residuum.__version__
    assert facts["cores"] >= 1
    home = {"path": str(tmp_path / "nowhere"), "from": "RESIDUUM_DATA", "exists": False, "writable": False}
    assert facts["data_home"] == home
    for name, extra in facts["extras"].items():
        assert f"residuum[{name}]" in extra["install"]


def test_doctor_names_what_is_missing(inside, monkeypatch):
    from residuum.system import machine

    def version(package):
        return None if package in ("numba", "opencv-python-headless") else "1.0"

    monkeypatch.setattr(machine, "installed_version", version)
    code, text, error = inside("doctor")
    assert code == 1
    assert re.search(r"numba +MISSING", text)
    assert "Missing: numba." in error
    if machine.extras():
        wanted = r'images +missing opencv-python-headless: python -m pip install "residuum\[images\]"'
        assert re.search(wanted, text)


def test_compare_without_a_terminal(shell):
    done = shell(*QUICK, "--n-jobs", "1")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert len(re.findall(r"^ *(NSC|CRC) +\d+\.\d ± \d+\.\d ", done.stdout, re.MULTILINE)) == 2
    (folder,) = (shell.cwd / "residuum-runs").iterdir()
    assert done.stderr == f"Wrote results.json, table.md and report.html to residuum-runs/{folder.name}\n"
    assert sorted(path.name for path in folder.iterdir()) == [
        "report.html",
        "results.json",
        "settings.json",
        "table.md",
    ]


def test_json_and_the_same_folder_again(inside, tmp_path):
    code, text, _ = inside(*QUICK, "--json", "--out", "run")
    assert code == 0
    brief = json.loads(text)
    assert [row["method"] for row in brief["summary"]] == ["NSC", "CRC"]
    assert brief["folder"] == "run"
    whole = json.loads((tmp_path / "run" / "results.json").read_text())
    assert brief["summary"] == whole["summary"]

    assert json.loads(inside(*QUICK, "--json", "--out", "run")[1]) == brief
    code, _, error = inside(*QUICK, "--seed", "1", "--out", "run")
    assert code == 2
    assert "seed: 0 there, 1 here" in error


def test_a_reader_that_hangs_up_is_no_error_to_speak_of(shell):
    reading, writing = os.pipe()
    os.close(reading)
    for args in (["--help"], [*QUICK, "--out", "run"]):
        gone = shell(*args, capture_output=False, stdout=writing, stderr=subprocess.PIPE)
        assert gone.returncode == 1
        assert gone.stderr == ""
    os.close(writing)
    assert (shell.cwd / "run" / "report.html").is_file()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("long", [False, True])
def test_a_full_disk_behind_stdout_is_one_line(shell, long):
    """What fits into the buffer fails at its end, more of it at once."""
    if long:
        (shell.cwd / "a.csv").write_text("a,b,label\n" + "1,2,x\n2,1,y\n" * 3000)
        assert shell("fit", "a.csv", "--method", "crc", "--out", "m").returncode == 0
    args = ("predict", "m", "a.csv") if long else ("--help",)
    with Path("/dev/full").open("w") as full:
        lost = shell(*args, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert lost.returncode == 1
    assert lost.stderr.splitlines()[-1] == "Error: No space left on device: standard output"


@pytest.mark.parametrize("command", ["compare", "fit", "predict"])
def test_a_full_disk_behind_a_file_names_the_file(shell, command):
    (shell.cwd / "a.csv").write_text("a,b,label\n" + "1,2,x\n2,1,y\n" * 100)
    assert shell("fit", "a.csv", "--method", "crc", "--out", "m").returncode == 0
    args, name = {
        "compare": (
            ("compare", "a.csv", "--methods", "crc", "--trials", "1", "--out", "run"),
            "run/settings.json",
        ),
        "fit": (("fit", "a.csv", "--method", "crc", "--out", "n"), "n"),
        "predict": (("predict", "m", "a.csv", "--out", "answers.csv"), "answers.csv"),
    }[command]
    before = sorted(shell.cwd.rglob("*.*"))
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (500, 500))
    lost = shell(*args, preexec_fn=limit)
    assert lost.returncode == 1
    assert re.search(f"^Error: .*{name} cannot be written: File too large", lost.stderr, re.MULTILINE)
    assert sorted(shell.cwd.rglob("*.*")) == before


def test_a_closed_stdout_is_no_error(shell):
    closed = shell("--version", capture_output=False, stderr=subprocess.PIPE, preexec_fn=lambda: os.close(1))
    assert (closed.returncode, closed.stderr) == (0, "")


def test_missed_tolerance_is_exit_code_4_after_everything_is_written(inside, tmp_path, monkeypatch):
    from residuum.experiments import comparison

    monkeypatch.setitem(comparison.TUNED, "NRC", {"step_tol": 1e-12, "max_iter": 3})
    code, text, error = inside(*QUICK, "--methods", "nrc", "--out", "run")
    assert code == 4
    assert "NRC: 3494 of 3494 queries missed the tolerance." in text
    assert "NRC 3494" in error
    assert (tmp_path / "run" / "report.html").is_file()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_keeps_finished_cells_and_continues(shell, number):
    # Many training samples make a slow method: the signal comes long before the last trial.
    args = ["compare", "--methods", "svm", "--trials", "20", "--train-per-class", "170", "--out", "run"]
    process = subprocess.Popen(
        [*COMMAND, *args],
        cwd=shell.cwd,
        env=shell.env,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    cells = shell.cwd / "run" / "cells"
    while len(list(cells.glob("*.json"))) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    process.send_signal(number)
    out, err = process.communicate()
    assert process.returncode == 130
    assert out == ""
    kept = sorted(cells.iterdir())
    assert re.search(
        rf"^Interrupted\. {len(kept)} of 20 results are kept in run; .*--out run continues.*\n", err, re.M
    )
    assert 2 <= len(kept) < 20
    before = {path.name: json.loads(path.read_text()) for path in kept}
    assert sorted(path.name for path in (shell.cwd / "run").iterdir()) == ["cells", "settings.json"]

    if number == signal.SIGTERM:
        return  # continuing is the same for both
    again = shell(*args)
    assert again.returncode == 0, again.stderr
    results = json.loads((shell.cwd / "run" / "results.json").read_text())
    after = {f"trial-{cell['trial']:03d}-{cell['method']}.json": cell for cell in results["cells"]}
    assert len(after) == 20
    assert {name: after[name] for name in before} == before  # times and all: not measured again


DROPPED = """
import os, signal, sys
from residuum.cli import main as command

class Deaf:
    def __del__(self):  # Python drops what is raised here
        os.kill(os.getpid(), signal.Signals[sys.argv.pop()])

def prepare(before=command._prepare_streams):
    before()
    Deaf()
    if "wait" in sys.argv:
        signal.alarm(600)
        while True:
            signal.pause()

command._prepare_streams = prepare
sys.exit(command.main())
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("words", ["wait", "--version", "explain nothing.residuum nothing.csv --row 1"])
def test_a_signal_that_was_dropped_on_the_way_still_gives_130(shell, name, words):
    line = [sys.executable, "-c", DROPPED, *words.split(), name]
    done = subprocess.run(line, cwd=shell.cwd, env=shell.env, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1].startswith("Interrupted.")
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_that_the_shell_ignores_is_ignored_to_the_end(shell):
    """As for a command in the background; SIGTERM would still end it."""
    ignored = DROPPED.replace(
        "import os, signal, sys\n", "import os, signal, sys\nimport residuum.__main__\n"
    )
    assert ignored != DROPPED
    before = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    line = [sys.executable, "-c", ignored.replace("command.main()", "residuum.__main__.run()"), "--version"]
    done = subprocess.run(
        [*line, "SIGINT"], cwd=shell.cwd, env=shell.env, capture_output=True, text=True, preexec_fn=before
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert residuum.__version__ in done.stdout


def test_other_errors_that_python_drops_are_told_as_ever(shell):
    failing = DROPPED.replace(
        "os.kill(os.getpid(), signal.Signals[sys.argv.pop()])", "raise ValueError('lost')"
    )
    assert failing != DROPPED
    line = [sys.executable, "-c", failing, "--version"]
    done = subprocess.run(line, cwd=shell.cwd, env=shell.env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"residuum, version {residuum.__version__}\n")
    assert "ValueError: lost" in done.stderr


def test_a_signal_that_a_library_drops_is_obeyed_when_the_work_is_done(inside, monkeypatch):
    from residuum.cli.doctor import doctor

    def drop(**_options):
        with contextlib.suppress(KeyboardInterrupt):
            cli._interrupt(signal.SIGTERM, None)

    monkeypatch.setattr(cli, "_arrived", [])
    monkeypatch.setattr(doctor, "callback", drop)
    assert inside("doctor")[0] == 130
    cli._interrupt(signal.SIGTERM, None)  # the command ends already
    monkeypatch.setattr(cli, "_arrived", [])
    monkeypatch.setattr(doctor, "callback", lambda **_options: None)
    assert inside("doctor")[0] == 0


def test_an_error_of_another_file_is_not_that_of_the_output(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent\.csv"), output_file(tmp_path / "answers.csv"):
        (tmp_path / "absent.csv").read_bytes()
    assert list(tmp_path.iterdir()) == []


def test_out_that_is_not_ours(inside, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    code, _, error = inside(*QUICK, "--out", "mine")
    assert code == 2
    assert "not empty" in error
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="paths must be Unicode there")
def test_out_with_a_name_that_is_not_utf8(inside, tmp_path):
    name = os.fsdecode(b"run-\xff")
    code, text, error = inside(*QUICK, "--json", "--out", name)
    assert code == 0
    assert "run-\\udcff" in error
    assert (tmp_path / name / "report.html").is_file()
    assert json.loads(text)["folder"] == name


def test_a_deleted_current_folder_is_named(tmp_path, capsys, monkeypatch):
    """`os.getcwd` says no more than that something does not exist."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(FileNotFoundError) as found:
        os.getcwd()  # noqa: PTH109
    assert cli._report(found.value, debug=False) == 1
    assert "The current folder was deleted." in capsys.readouterr().err


INTERRUPTED_IMPORT = """
import os, signal, sys
from residuum.__main__ import run

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["residuum", "doctor"]
run()
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_while_modules_are_imported_ends_the_command_without_a_traceback():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED_IMPORT], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")
