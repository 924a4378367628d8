"""The command line's frame: verbs, exit codes, one sentence for an error, numbers as people read them."""

import errno
import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pipelines.cli import logstores
from pipelines.cli.backfill import follow
from pipelines.cli.errors import sentence
from pipelines.cli.hours import HOUR
from pipelines.cli.main import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_PIPE, EXIT_USAGE, VERBS, cli, run
from pipelines.cli.output import Output, moment, shown, span
from pipelines.dagster_client import Progress
from pipelines.landing.hours import check_begun, hour_text
from pipelines.landing.logstore import Logstore
from pipelines.landing.table import commands
from sls_io.emulator import Emulator
from sls_io.values.clock import SYSTEM_CLOCK, ManualClock
from sls_io.values.errors import ConfigError, InvariantBroken
from sls_io.values.moments import unix_s
from tests.worlds.projects import make_project

DEFS = """type: pipelines.components.SlsLogstore
attributes:
  service: {{endpoint: "{endpoint}", project: demo, logstore: {name}}}
  group: lake
  table: bronze.{name}
  start: 2026-11-20-00:00
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder with the logstores `orders` and `clicks`; it is the working folder."""
    defs = {name: DEFS.format(name=name, endpoint="http://127.0.0.1:9") for name in ("orders", "clicks")}
    monkeypatch.chdir(make_project(tmp_path, **defs))
    monkeypatch.setenv("SLS_LAKE_HOME", str(tmp_path / "var"))
    return tmp_path


@pytest.mark.parametrize("name", sorted(VERBS))
def test_every_verb_has_help_and_takes_json_and_debug(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    said = capsys.readouterr().out
    assert "--json" in said and "--debug" in said


def test_help_lists_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"\n  {name} " in said for name in VERBS)


@pytest.mark.parametrize(
    "arguments",
    [
        ["fly"],
        ["--help"],
        ["land"],
        ["describe", "--json"],
        ["land", "-l", "nope"],
        ["table", "undo", "-l", "x"],
    ],
)
def test_help_and_a_wrong_name_are_said_before_anything_heavy_is_imported(
    arguments: list[str], project: Path
) -> None:
    heavy = {"aliyun", "dagster", "numpy", "pandas", "pyarrow", "pyiceberg", "pyspark", "sqlalchemy"}
    code = "import sys; from pipelines.cli.main import run; code = run(sys.argv[1:]); "
    code += f"print(code, {heavy!r} & sys.modules.keys())"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    expected = 0 if arguments == ["--help"] else EXIT_USAGE
    assert done.stdout.splitlines()[-1] == f"{expected} set()"


@pytest.mark.parametrize(
    "arguments", [["fly"], ["load"], ["load", "--rows", "0"], ["backfill", "--from", "noon"]]
)
def test_wrong_usage_exits_with_2_and_says_what_is_wrong(
    arguments: list[str], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == EXIT_USAGE
    assert "Error:" in capsys.readouterr().err


def test_dev_outside_of_a_project_says_so_before_it_speaks_of_a_port_and_makes_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run(["dev", "--port", str(taken.getsockname()[1])]) == EXIT_USAGE
    said = capsys.readouterr().err
    assert "is in no project" in said and "sls-lake init DIR" in said and not [*tmp_path.iterdir()]


def test_a_setting_that_cannot_work_exits_with_2_and_one_sentence(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["describe"]) == EXIT_USAGE
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("sls-lake: there are 2 logstores: choose one with --logstore clicks or orders")
    assert said.err.count("\n") == 1


def test_a_service_that_does_not_answer_exits_with_1_and_one_sentence(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = project / "pipelines" / "defs" / "orders" / "defs.yaml"
    path.write_text(path.read_text().replace("logstore: orders}", "logstore: orders, tries_max: 1}"))
    assert run(["describe", "-l", "orders"]) == EXIT_FAILED
    said = capsys.readouterr()
    assert "127.0.0.1:9" in said.err and "Traceback" not in said.err
    assert said.err.count("\n") == 1


def test_a_narrow_terminal_names_the_columns_with_values_that_it_leaves_out_by_their_headings() -> None:
    shown_ones = io.StringIO()
    row = {"run": "9f31c0de", "first_s": 1_790_000_000.0, "last_s": None, "state": "open", "size": None}
    Output(file=shown_ones, width=20).records([row], less=("size", "last_s", "first_s"))
    assert "without first file (UTC): the" in " ".join(shown_ones.getvalue().split())


def test_an_error_that_nobody_foresaw_is_one_line_without_a_trace() -> None:
    text = sentence(ValueError("first\nsecond"))
    assert text.startswith("ValueError: first (") and "--debug" in text and "\n" not in text
    assert sentence(InvariantBroken("a is not b")) == "a is not b"


def test_a_place_that_takes_no_file_is_told_with_its_cure() -> None:
    told = sentence(OSError(errno.EROFS, "Read-only file system", "/lake/defs.yaml"))
    assert told.startswith("/lake/defs.yaml cannot be written (Read-only file system): make room, or")
    assert "did not foresee" in sentence(OSError(errno.EIO, "Input/output error", "/lake/defs.yaml"))


@pytest.mark.parametrize(
    "arguments", [["check"], ["check", "--json"], ["--help"], ["landings", "show", "--help"], ["--version"]]
)
def test_an_output_that_takes_no_more_is_named_once(project: Path, arguments: list[str]) -> None:
    program = "import sys; from pipelines.cli.main import main; main(sys.argv[1:])"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=project,
        )
    assert done.returncode == EXIT_FAILED
    assert done.stderr.count("\n") == 1 and "standard output cannot be written: No space left" in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_the_shell_has_closed_leads_nowhere_and_no_file_gets_its_number(
    project: Path, closed: str
) -> None:
    seen = project / "numbers"
    program = (
        "import os, sys\n"
        "from pipelines.cli.main import main\n"
        "try:\n    main(['check'])\n"
        "finally:\n"
        f"    number = os.open({str(seen)!r}, os.O_CREAT | os.O_WRONLY)\n"
        "    os.write(number, str(number).encode())\n"
    )
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, program], check=False, cwd=project
    )
    assert done.returncode == 0
    assert int(seen.read_text()) > 2


def test_whoever_reads_the_output_has_gone_is_an_end_of_its_own(project: Path) -> None:
    program = "import sys; from pipelines.cli.main import main; main(sys.argv[1:])"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-c", program, "check"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        cwd=project,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (EXIT_PIPE, "")


def test_a_group_without_a_verb_shows_its_verbs(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["landings"]) == EXIT_USAGE
    said = capsys.readouterr().err
    assert said.count("Usage:") == 1 and "\n  abort  " in said and "\n  show   " in said


STOPS = {
    "the program": ("pipelines.cli.logstores", "pass", "sls-lake: stopped; nothing was begun"),
    "a verb": ("pipelines.cli.check", "pass", "stopped; what was committed by then stays"),
    "a library that calls it an error of its own": (
        "pipelines.cli.check",
        "raise ValueError('this class cannot be built') from stop",
        "stopped; what was committed by then stays",
    ),
}


@pytest.mark.parametrize(("module", "then", "says"), STOPS.values(), ids=STOPS)
def test_a_stop_while_something_is_imported_is_an_end_without_a_trace(
    project: Path, module: str, then: str, says: str
) -> None:
    program = (
        "import os, signal, sys\n"
        "class Stop:\n"
        "    def find_spec(self, name, *more):\n"
        f"        if name == {module!r}:\n"
        "            try:\n"
        "                os.kill(os.getpid(), signal.SIGINT)\n"
        "                signal.pause()\n"
        "            except KeyboardInterrupt as stop:\n"
        f"                {then}\n"
        "                raise\n"
        "sys.meta_path.insert(0, Stop())\n"
        "from pipelines.cli.start import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "check"], capture_output=True, text=True, check=False, cwd=project
    )
    assert done.returncode == EXIT_INTERRUPTED
    assert done.stderr.strip().startswith(says) and done.stderr.strip().count("\n") == 0


def test_a_working_folder_that_is_gone_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    assert run(["check"]) == EXIT_USAGE
    assert capsys.readouterr().err == (
        "sls-lake: the folder that this was typed in is gone: change to one that is there\n"
    )


@pytest.mark.parametrize("words", [["describe", "--debug"], ["--debug", "describe"]])
def test_debug_shows_the_trace_and_ends_as_without(
    project: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["describe"]) == EXIT_USAGE
    (said,) = capsys.readouterr().err.splitlines()[:1]

    assert run(words) == EXIT_USAGE

    told = capsys.readouterr().err
    assert told.startswith("Traceback (most recent call last)") and said in told


def test_a_logstore_is_a_folder_under_defs_a_file_or_the_only_one(project: Path) -> None:
    defs = project / "pipelines" / "defs"
    assert logstores.resolve("orders").name == "orders"
    assert logstores.resolve(str(defs / "clicks" / "defs.yaml")).name == "clicks"
    with pytest.raises(ConfigError, match="there is clicks, orders"):
        logstores.resolve("visits")
    with pytest.raises(ConfigError, match="no file"):
        logstores.resolve("defs/none.yaml")
    (defs / "orders" / "defs.yaml").unlink()
    assert logstores.resolve(None).name == "clicks"
    (defs / "clicks" / "defs.yaml").unlink()
    with pytest.raises(ConfigError, match="no logstore is set up in"):
        logstores.resolve(None)


def test_the_project_is_found_from_a_folder_inside_it(project: Path) -> None:
    assert logstores.project_root(project / "pipelines" / "defs" / "orders") == project


@pytest.mark.parametrize(
    "text", ["2026-11-20-07:00", "2026-11-20T07", "2026-11-20T07:00", "2026-11-20 07:00"]
)
def test_an_hour_may_be_written_in_four_ways(text: str) -> None:
    hour = HOUR.convert(text, None, None)
    assert hour_text(hour) == "2026-11-20-07:00"
    with pytest.raises(click.BadParameter):
        HOUR.convert("2026-11-20-07:30", None, None)


def test_json_is_all_that_stdout_gets() -> None:
    file = io.StringIO()
    output = Output(as_json=True, file=file)
    output.say("words")
    output.table(["a"], [[1]])
    output.result({"shards": frozenset({2, 1})})
    assert json.loads(file.getvalue()) == {"shards": [1, 2]}


def test_text_is_aligned_and_has_no_json() -> None:
    file = io.StringIO()
    output = Output(file=file)
    output.table(["name", ">rows"], [["a", 1], ["b", 20_000]])
    output.result({"a": 1})
    lines = [line.rstrip() for line in file.getvalue().splitlines() if line.strip()]
    assert lines[0].split() == ["name", "rows"]
    assert lines[-2].endswith("     1") and lines[-1].endswith("20,000")
    assert "{" not in file.getvalue()


def test_values_read_well() -> None:
    assert [shown(v) for v in (None, True, 1234567, 1234.56, "x")] == ["", "yes", "1,234,567", "1,234.6", "x"]
    assert [span(v) for v in (None, 4.25, 200, 18120)] == ["", "4.2 s", "3 min 20 s", "5 h 02 min"]
    assert moment(1_763_700_005) == "2025-11-21 04:40:05"
    assert moment(0) == moment(None) == ""


def test_hours_that_dagster_has_not_yet_are_refused_with_the_hour_the_clock_and_the_cure() -> None:
    hour = 494_000
    check_begun(range(hour - 3, hour + 1), hour * 3600.0, "fill")
    with pytest.raises(ConfigError) as refused:
        check_begun(range(hour - 3, hour + 2), hour * 3600.0 + 65, "rest")
    said = str(refused.value)
    assert said.startswith("2026-05-10-09:00 has not begun by this machine's clock (2026-05-10-08:01 UTC)")
    assert "ask for hours up to 2026-05-10-08:00" in said
    (call,) = refused.value.cures
    hours = "--from 2026-05-10-05:00 --to 2026-05-10-09:00"
    assert commands.shown(call) == f"sls-lake backfill --local --mode rest {hours}"


def test_a_backfill_of_an_hour_to_come_asks_no_dagster(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    coming = hour_text(int(SYSTEM_CLOCK.now()) // 3600 + 1)
    for mode in (["--mode", "fill"], ["--mode", "replace", "--execute"]):
        arguments = ["backfill", "-l", "orders", "--from", coming, "--dagster-url", "http://127.0.0.1:9"]
        assert run([*arguments, *mode]) == 2
        assert f"{coming} has not begun by this machine's clock" in capsys.readouterr().err


def test_a_backfill_is_followed_to_its_end_and_each_change_said_once() -> None:
    states: Iterator[Progress] = iter(
        [
            Progress("REQUESTED", 3, 0, 0),
            Progress("REQUESTED", 3, 0, 0),
            Progress("REQUESTED", 3, 2, 0),
            Progress("REQUESTED", 3, 2, 0),
            Progress("COMPLETED_SUCCESS", 3, 3, 0),
        ]
    )
    said: list[str] = []
    clock = ManualClock()
    end = follow(lambda: next(states), said.append, clock)
    assert end.ok and end.ended
    assert said == ["2 of 3 hours done", "3 of 3 hours done"]
    assert clock.monotonic() == 4.0


@pytest.mark.parametrize("status", ["FAILED", "CANCELED", "COMPLETED_FAILED"])
def test_a_backfill_that_ended_badly_is_not_ok(status: str) -> None:
    assert Progress(status, 1, 0, 1).ended
    assert not Progress(status, 1, 0, 1).ok


def test_the_group_is_a_click_group_with_the_verbs_in_order() -> None:
    assert cli.list_commands(click.Context(cli)) == list(VERBS)


def test_an_emulator_on_a_taken_port_says_so_and_gives_no_advice_for_after(
    emulator: Emulator, capfd: pytest.CaptureFixture[str]
) -> None:
    taken = emulator.endpoint.rsplit(":", 1)[1]

    assert run(["emulator", "--port", taken]) == EXIT_USAGE

    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert f"port {taken} is taken" in said.err


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-20T07:30:00", 1_795_159_800),
        ("2026-11-20T07:30:00Z", 1_795_159_800),
        ("2026-11-20T15:30:00+08:00", 1_795_159_800),
        ("2026-11-20 07:30", 1_795_159_800),
        ("2026-11-20-07:00", 1_795_158_000),
        ("2026-11-20", 1_795_132_800),
    ],
)
def test_a_time_means_the_same_to_each_verb_to_the_settings_and_from_python(text: str, at: int) -> None:
    """Without a zone it is UTC, everywhere: one function reads it."""
    verbs = {name: option for name, option in _times(cli) if option.type.name == "time"}
    assert {"checkpoints set", "peek"} <= verbs.keys()
    assert {option.type.convert(text, None, None) for option in verbs.values()} == {at}
    assert unix_s(text) == at
    service = {"endpoint": "http://127.0.0.1:9", "project": "demo", "logstore": "orders"}
    start = "2026-11-20-00:00"
    settings = {"service": service, "group": "lake", "table": "bronze.orders", "start": start, "reset": text}
    assert Logstore.model_validate(settings).reset_time_s(0.0) == at


def _times(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Parameter]]:
    """Every verb with each of its parameters."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _times(command, f"{before}{name} ")
        else:
            yield from ((f"{before}{name}", parameter) for parameter in command.params)
