"""`sls-lake load` against an emulator: what arrives is what was said, and bad input is one sentence."""

import csv
import gzip
import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pipelines.cli.emulator_admin import Stored, stored
from pipelines.cli.files.accesslog import generated
from pipelines.cli.files.log_files import LINE_BYTES_MAX
from pipelines.cli.files.packing import unpack
from pipelines.cli.main import EXIT_FAILED, EXIT_USAGE, run
from sls_io import open_logstore
from sls_io.emulator import Emulator
from sls_io.values.settings import Service
from sls_io.values.window import HOUR_S
from tests.worlds.projects import CLICKS, LINE, make_project


@pytest.fixture
def project(tmp_path: Path, emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one logstore, `clicks`, that the emulator does not have yet."""
    monkeypatch.chdir(make_project(tmp_path, clicks=CLICKS))
    monkeypatch.setenv("SLS_ENDPOINT", emulator.endpoint)
    return tmp_path


def kept(emulator: Emulator) -> list[Stored]:
    """What the emulator has of the logstore."""
    service = Service(endpoint=emulator.endpoint, project="demo", logstore="clicks")
    return list(stored(emulator.admin, service))


def test_generated_rows_arrive_once_with_the_content_of_their_number(
    project: Path, emulator: Emulator, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["load", "--rows", "2500", "--seed", "3", "--first-row", "100", "--create", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["rows"], said["groups"], len(said["created"])) == (2500, 3, 2)
    numbers = []
    for group in kept(emulator):
        for log in unpack(group.body).Logs:
            content = {c.Key: c.Value for c in log.Contents}
            seed, number = content["request_id"].decode().split("-")
            assert content == dict(generated(int(seed, 16), int(number), float(log.Time)).contents)
            numbers.append(int(number))
    assert sorted(numbers) == list(range(100, 2600))


def test_rows_spread_over_hours_are_received_in_that_many_hours(project: Path, emulator: Emulator) -> None:
    before_s = emulator.admin.now()
    assert run(["load", "--rows", "1000", "--group-size", "50", "--spread-hours", "4", "--create"]) == 0
    hours = [int(group.receive_s) // HOUR_S for group in kept(emulator)]
    assert len(set(hours)) == 4
    assert max(hours) == int(before_s) // HOUR_S
    assert 0 <= emulator.admin.now() - before_s < 60


@pytest.mark.parametrize("more", [[], ["--spread-hours", "4"]])
def test_a_dry_run_sends_nothing_creates_nothing_sets_no_clock_and_says_what_a_load_would_do(
    more: list[str], project: Path, emulator: Emulator, capsys: pytest.CaptureFixture[str]
) -> None:
    before, clock_s = emulator.admin.state(), emulator.admin.now()
    call = ["load", "--rows", "2500", "--create", *more, "--json"]
    assert run([*call, "--dry-run"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert emulator.admin.state()["logstores"] == before["logstores"] == []
    assert 0 <= emulator.admin.now() - clock_s < 60
    assert planned["does_it"]["call"] == " ".join(["sls-lake", *call[:-1]]) and not planned["executed"]
    assert run(call) == 0
    done = json.loads(capsys.readouterr().out)
    assert done["executed"] and "does_it" not in done
    same = ("project", "logstore", "created", "rows", "late_rows")
    assert [planned[name] for name in same] == [done[name] for name in same]
    assert planned["created"] == ["project demo", "logstore clicks with 4 shards"]


def test_a_dry_run_of_a_file_counts_what_is_not_as_usual_and_one_without_a_logstore_is_refused(
    project: Path, emulator: Emulator, capsys: pytest.CaptureFixture[str]
) -> None:
    path = project / "access.log"
    path.write_text(LINE * 3 + "\nhalf a line\n" + LINE)
    call = ["load", "--file", str(path)]
    assert run([*call, "--dry-run"]) == EXIT_FAILED, "as the load itself"
    assert "ProjectNotExist" in capsys.readouterr().err
    assert run([*call, "--create", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "rows 5, groups 1" in said and "1 lines did not have the format" in said
    assert "read access.log as combined" in said and "4 rows are older than the 7 days" in said
    assert said.endswith(f"  sls-lake load --file {path} --create\n")
    assert emulator.admin.state()["logstores"] == []


def test_a_second_load_creates_nothing_and_adds(
    project: Path, emulator: Emulator, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["load", "--rows", "10", "--create"]) == 0
    capsys.readouterr()
    assert run(["load", "--rows", "10", "--create", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["created"] == []
    assert len(kept(emulator)) == 2


def test_a_file_arrives_line_by_line_and_odd_lines_are_kept_and_counted(
    project: Path, emulator: Emulator, capsys: pytest.CaptureFixture[str]
) -> None:
    path = project / "access.log"
    path.write_text(LINE * 3 + "\nhalf a line\n" + LINE)
    assert run(["load", "--file", str(path), "--create"]) == 0
    said = capsys.readouterr().out
    assert "5 rows in 1 group" in said
    assert "1 lines did not have the format" in said
    assert "1 blank lines left out" in said
    assert "4 rows are older than the 7 days" in said
    (group,) = kept(emulator)
    logs = unpack(group.body).Logs
    assert {c.Key: c.Value for c in logs[3].Contents} == {"line": b"half a line"}


def test_rows_ahead_of_the_clock_are_not_called_old(
    project: Path, emulator: Emulator, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = int(emulator.admin.now())
    path = project / "a.jsonl"
    path.write_text(f'{{"time": {now_s + 3600}}}\n{{"time": {now_s - 30 * 86_400}}}\n{{"time": {now_s}}}\n')
    assert run(["load", "--file", str(path), "--create"]) == 0
    said = capsys.readouterr().out
    assert "1 rows are older than the 7 days" in said
    assert "1 rows are further ahead of the service's clock than the 15 minutes" in said
    assert run(["load", "--file", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["late_rows"], found["future_rows"]) == (1, 1)


UNREADABLE = {
    "combined": (LINE.replace("17/May/2015", "99/Nov/2026"), LINE.replace("17/May/2015", "garbage"), LINE),
    "json": ('{"time": "garbage"}\n', '{"@timestamp": true}\n', '{"a": 1}\n', '{"ts": null, "time": ""}\n'),
    "csv": ("a,time\n", "1,99/Nov/2026\n", "2,-7\n", "3,\n"),
    "syslog": ("Feb 31 10:00:00 host app: 1\n", "Nov 40 10:00:00 host app: 2\n", "<3>1 - host app 1 - - 3\n"),
}


@pytest.mark.parametrize("format_name", UNREADABLE)
def test_a_time_that_cannot_be_read_is_counted_and_one_that_is_not_there_is_not(
    project: Path, emulator: Emulator, capsys: pytest.CaptureFixture[str], format_name: str
) -> None:
    path = project / "lines"
    path.write_text("".join(UNREADABLE[format_name]))
    call = ["load", "--file", str(path), "--format", format_name, "--create"]
    assert run(call) == 0
    said = capsys.readouterr().out
    assert "2 rows have a time that cannot be read: they got the time of loading as log time" in said
    assert run([*call, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["odd_times"], found["odd_lines"], found["future_rows"]) == (2, 0, 0)


SOLD = "order_no,sold_at\nA-1,{0}\nA-2,{0}\nA-3,\n"


def test_rows_without_a_time_of_their_own_are_told_and_an_option_names_its_key(
    project: Path, emulator: Emulator, capsys: pytest.CaptureFixture[str]
) -> None:
    path, at_s = project / "sold.csv", int(emulator.admin.now()) - 86_400
    path.write_text(SOLD.format(datetime.fromtimestamp(at_s, UTC).strftime("%d-%b-%Y %H:%M:%S")))
    call = ["load", "--file", str(path), "--create"]
    assert run(call) == 0
    said = capsys.readouterr().out
    assert "rows 3" in said, "the header is no row"
    assert "3 of 3 rows have no time under `__time__`, `time`, `timestamp`, `@timestamp`, `ts`: they" in said
    assert run([*call, "--time-key", "sold_at"]) == 0
    assert "1 of 3 rows have no time under `sold_at`: they get the time of" in capsys.readouterr().out
    assert run([*call, "--time-key", "sold_at", "--dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["timeless"], found["time_keys"], found["odd_times"]) == (1, ["sold_at"], 0)
    times = [log.Time for group in kept(emulator) for log in unpack(group.body).Logs]
    assert len(times) == 6 and times.count(at_s) == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--rows", "5", "--time-key", "at"], "--time-key goes with --file"),
        (
            ["--file", "a.log", "--time-key", "at"],
            "--time-key goes with json and csv: a.log is read as combined",
        ),
    ],
)
def test_a_key_for_the_time_is_refused_where_no_key_has_it(
    project: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    (project / "a.log").write_text(LINE)
    assert run(["load", *words]) == EXIT_USAGE
    assert says in capsys.readouterr().err


# --- a load that cannot be whole -------------------------------------------------------------

ENDINGS: dict[str, Callable[[bytes], bytes]] = {
    "a gzip that is cut off": lambda lines: gzip.compress(lines)[:-20],
    "a gzip with a wrong sum": lambda lines: gzip.compress(lines)[:-8] + bytes(8),
    "a gzip with something behind it": lambda lines: gzip.compress(lines) + b"more",
    "a line that is too long": lambda lines: lines + b"x" * (LINE_BYTES_MAX + 1),
}


def content(lines: int) -> bytes:
    """Lines of text that name their number; every hundredth is blank."""
    return b"".join(b"\n" if n % 100 == 0 else b"%d\n" % n for n in range(1, lines + 1))


def numbers(emulator: Emulator) -> list[int]:
    """The lines that the emulator has, by their number."""
    groups = [unpack(group.body) for group in kept(emulator)]
    return sorted(int(log.Contents[0].Value) for group in groups for log in group.Logs)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_that_cannot_be_read_to_its_end_is_refused_before_anything_is_sent(
    ending: str, project: Path, emulator: Emulator, capsys: pytest.CaptureFixture[str]
) -> None:
    path = project / "a.log"
    path.write_bytes(ENDINGS[ending](content(5000)))
    assert run(["load", "--file", str(path), "--format", "text", "--create"]) == EXIT_USAGE
    said = capsys.readouterr().err
    assert "line " in said and "loaded" not in said and "stored" not in said
    assert emulator.admin.state()["logstores"] == []


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_a_pipe_brought_before_it_broke_is_said_and_going_on_after_it_doubles_nothing(
    ending: str, project: Path, emulator: Emulator, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = project / "pipe"
    os.mkfifo(pipe)
    broken = ENDINGS[ending](content(5000))

    def write() -> None:
        # A reader that has seen enough closes its end.
        with suppress(BrokenPipeError):
            pipe.write_bytes(broken)

    writer = threading.Thread(target=write)
    writer.start()
    code = run(["load", "--file", str(pipe), "--format", "text", "--create", "--json"])
    writer.join()
    found = json.loads(capsys.readouterr().out)
    assert code == EXIT_FAILED == found["error"]["exit_code"] and found["error"]["kind"] == "ConfigError"
    stored = numbers(emulator)
    assert stored and len(stored) == found["rows"] and found["unknown_rows"] == 0
    whole = project / "whole.log"
    whole.write_bytes(content(5000))
    assert run(["load", "--file", str(whole), "--format", "text", *found["go_on"].split()]) == 0
    assert numbers(emulator) == [n for n in range(1, 5001) if n % 100]


@pytest.mark.parametrize("source", ["a file", "generated"])
def test_a_service_that_refuses_in_the_middle_leaves_what_is_said(
    source: str, project: Path, emulator: Emulator, capsys: pytest.CaptureFixture[str]
) -> None:
    path = project / "a.log"
    path.write_bytes(content(5000))
    what = ["--file", str(path), "--format", "text"] if source == "a file" else ["--rows", "4950"]
    assert run(["load", "--rows", "1", "--first-row", "9999", "--create"]) == 0
    emulator.admin.fault("error", call="put_logs", after=2, status=400, code="PostBodyInvalid", message="no")
    capsys.readouterr()
    assert run(["load", *what, "--json"]) == EXIT_FAILED
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["unknown_rows"]) == (2000, 0)
    assert found["error"]["code"] == "PostBodyInvalid"
    emulator.admin.remove()
    again = what if source == "a file" else []
    assert run(["load", *again, *found["go_on"].split()]) == 0
    rows = [unpack(group.body).Logs for group in kept(emulator)]
    assert sum(len(logs) for logs in rows) == 1 + 4950
    values = {log.Contents[0].Value for logs in rows for log in logs}
    assert len(values) == 1 + 4950, "each once"


def test_a_lost_answer_is_said_as_one_that_is_not_known(
    project: Path, emulator: Emulator, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["load", "--rows", "1", "--create"]) == 0
    emulator.admin.fault("drop_reply", call="put_logs", after=1)
    capsys.readouterr()
    assert run(["load", "--rows", "3000"]) == EXIT_FAILED
    said = capsys.readouterr().err
    assert "1,000 of 3,000 rows are stored" in said
    assert "--first-row 1000 --rows 2000" in said
    assert "of the 1,000 after them it is not known" in said and said.count("\n") == 1


def test_a_name_of_a_file_that_is_not_utf8_is_no_error(project: Path, emulator: Emulator) -> None:
    path = Path(os.fsdecode(os.fsencode(project) + b"/\xff.log"))
    path.write_text(LINE)
    assert run(["load", "--file", str(path), "--create"]) == 0
    assert len(kept(emulator)) == 1


def test_a_missing_project_is_one_sentence_with_the_cure(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["load", "--rows", "10"]) == EXIT_FAILED
    said = capsys.readouterr().err
    assert "ProjectNotExist" in said and said.count("\n") == 2
    assert "\n  sls-lake load --rows 10 --create   # creates project demo and logstore clicks" in said


def test_a_wrong_key_is_one_sentence_that_names_the_variables_and_not_the_key(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "canary-of-a-secret")
    assert run(["load", "--rows", "10", "--create"]) == EXIT_FAILED
    said = capsys.readouterr().err
    assert "ALIBABA_CLOUD_ACCESS_KEY_" in said and "canary" not in said
    assert "the secret is not the one of this access key id" in said and "withheld" not in said
    assert "emulator-key and emulator-secret" in said
    assert said.count("\n") == 1
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", "canary-of-an-id")
    assert run(["load", "--rows", "10", "--create"]) == EXIT_FAILED
    said = capsys.readouterr().err
    assert "the access key id is unknown" in said and "canary" not in said


def test_the_clock_of_what_is_no_emulator_is_never_set(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLS_ENDPOINT", "https://logs.invalid")
    defs = project / "pipelines" / "defs" / "clicks" / "defs.yaml"
    defs.write_text(CLICKS.replace("logstore: clicks", "logstore: clicks, region: nowhere"))
    assert run(["load", "--rows", "10", "--spread-hours", "2"]) == EXIT_USAGE
    assert "is no emulator" in capsys.readouterr().err


def test_describe_before_anything_has_landed_shows_the_shards(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLS_LAKE_HOME", str(project / "var"))
    assert run(["load", "--rows", "10", "--create", "--shards", "3"]) == 0
    capsys.readouterr()
    assert run(["describe", "--json"]) == 0
    shards = json.loads(capsys.readouterr().out)["shards"]
    assert [s["shard"] for s in shards] == [0, 1, 2]
    assert all(s["frontier"] is None and s["checkpoint"] is None for s in shards)
    assert run(["land", "--dry-run"]) == 0
    assert "nothing has landed yet" in capsys.readouterr().out
    assert run(["verify"]) == EXIT_FAILED
    assert "nothing has landed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("setting", "told"),
    [("columns: {status: integer}", "status"), ("reset: none", "set reset to earliest")],
)
def test_a_plan_before_the_first_landing_refuses_what_the_landing_would(
    setting: str,
    told: str,
    project: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLS_LAKE_HOME", str(project / "var"))
    assert run(["load", "--rows", "10", "--create"]) == 0
    (project / "pipelines" / "defs" / "clicks" / "defs.yaml").write_text(f"{CLICKS}  {setting}\n")
    capsys.readouterr()
    assert run(["land", "--dry-run"]) == EXIT_USAGE
    assert told in capsys.readouterr().err


# --- what a file says, and what comes out again ------------------------------------------------

CELL = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('",\r\n'), max_size=9)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(CELL, CELL | st.none()), min_size=1, max_size=12))
@example(rows=[("", ""), ("a\r\nb", None), (" x ", "null")])
def test_a_table_in_a_file_is_pulled_as_it_was_written(
    rows: list[tuple[str, str | None]], project: Path, emulator: Emulator
) -> None:
    assert run(["load", "--rows", "1", "--create", "--shards", "1"]) == 0
    with open_logstore(emulator.endpoint, "demo", "clicks") as logs:
        for name, absent in (("a.csv", ""), ("a.json", None)):
            path, begin = project / name, logs.extent(0).end
            with path.open("w", newline="", encoding="utf-8") as file:
                if absent is None:
                    file.writelines(json.dumps({"k": k, "v": v}) + "\n" for k, v in rows)
                else:
                    csv.writer(file).writerows([("k", "v"), *rows])
            said = ["load", "--file", str(path), "--format", path.suffix[1:]]
            assert run(said) == 0
            pulled = [
                dict(rest or ())
                for batch in logs.batches(0, begin=begin)
                for rest in batch.column("__rest__").to_pylist()
            ]
            written = [{"k": k, "v": absent if v is None else v} for k, v in rows]
            assert pulled == [{k: v for k, v in row.items() if v is not None} for row in written]


def test_what_a_load_does_not_send_is_said_in_numbers(
    project: Path, emulator: Emulator, capsys: pytest.CaptureFixture[str]
) -> None:
    path = project / "a.jsonl"
    path.write_text('{"a": null, "b": ""}\n{"a": null, "b": null}\n\n')
    assert run(["load", "--file", str(path), "--create"]) == 0
    said = capsys.readouterr().out
    assert "3 values are null, or `-` in the place of one, and are not sent" in said
    assert "1 blank lines left out" in said
    assert run(["load", "--file", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["valueless"] == 3
    for group in kept(emulator):
        logs = [{c.Key: c.Value for c in log.Contents} for log in unpack(group.body).Logs]
        assert logs == [{"b": b""}, {}]


# --- the format ------------------------------------------------------------------------------


def test_a_file_of_no_known_format_is_loaded_as_text_with_a_word_on_stderr(
    project: Path, emulator: Emulator, capsys: pytest.CaptureFixture[str]
) -> None:
    path = project / "app.log"
    path.write_text("something happened\nand again\n")
    assert run(["load", "--file", str(path), "--create", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["format"] == "text"
    assert "app.log" in captured.err and "--format" in captured.err
    assert run(["load", "--file", str(path), "--format", "text"]) == 0
    captured = capsys.readouterr()
    assert "read app.log as text" in captured.out
    assert captured.err == ""


def test_a_pipe_is_recognised_by_its_first_lines_and_loses_none(project: Path, emulator: Emulator) -> None:
    pipe = project / "pipe"
    os.mkfifo(pipe)
    body = "n,name\n" + "".join(f"{n},x\n" for n in range(50))
    writer = threading.Thread(target=pipe.write_text, args=[body])
    writer.start()
    assert run(["load", "--file", str(pipe), "--create"]) == 0
    writer.join()
    (group,) = kept(emulator)
    assert [{c.Key: c.Value for c in log.Contents} for log in unpack(group.body).Logs] == [
        {"n": b"%d" % n, "name": b"x"} for n in range(50)
    ]
