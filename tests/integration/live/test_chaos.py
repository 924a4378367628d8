"""A short run of chaos ends with nothing lost, twice or invented, and its verifier sees what is planted."""

import base64
import json
import os
import selectors
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.dagster_lane import started_by
from chaos.line import VARIABLE
from chaos.network import Network
from chaos.producer import group, value_of
from chaos.proof import (
    Beside,
    Found,
    acked_table,
    files_table,
    intervals_table,
    prove,
    shards_of,
    truth_of,
)

ROOT = Path(__file__).parents[3]
PROGRAM_S = 600.0
KILLS_MIN, STOPS_MIN, CONFLICTS_MIN, ROWS_MIN = 8, 1, 1, 10_000
WORDS = (
    "lost", "duplicate", "invented", "altered", "out of order", "child before parent",
    "contradicted", "unkept",
)  # fmt: skip
CLEAN = dict.fromkeys(WORDS, 0)


def run(folder: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """A run of the program, and the account it wrote."""
    account = folder / "account.json"
    command = [sys.executable, "-m", "chaos", *arguments, "--folder", str(folder / "chaos")]
    command += ["--json", str(account)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PROGRAM_S, check=False)
    assert account.exists(), done.stdout[-4000:] + done.stderr[-2000:]
    return done, json.loads(account.read_text())


def test_killed_and_paused_workers_land_every_log_once(tmp_path: Path) -> None:
    """Nothing may be wrong in any run. What happens in a third of a minute is up to the machine: another seed
    is tried until all of it has."""
    seen: dict[str, bool] = {}
    for seed in (1, 2, 7, 8):
        done, counted = run(tmp_path / str(seed), "--minutes", "0.33", "--seed", str(seed))

        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
        assert counted["problems"] == []
        found = counted["found"]
        assert found["wrong"] == CLEAN
        assert found["rows"] + found["gapped"] + found["withdrawn"] == found["stored"] >= ROWS_MIN
        happened = {
            "kills": counted["kills"] >= KILLS_MIN,
            "stops": counted["stops"] >= STOPS_MIN,
            "conflicts": counted["conflicts"] >= CONFLICTS_MIN,
            "the service died": counted["restarts"] >= 1,
            "retention removed logs": counted["cut"]["landed"] >= 1,
            "the table was maintained": counted["told"]["maintain"] >= 1,
            "an answer of the catalog was lost": bool(counted["unknown"]),
        }
        seen = {what: did or seen.get(what, False) for what, did in happened.items()}
        if all(seen.values()):
            return
    raise AssertionError(f"what never happened is not proven: {seen}")


FENCE = ("--minutes", "0.25", "--catalog", "reapplying")
"""A catalog that compares nothing but what a request requires."""
SEEDS = (3, 4, 5, 6)
"""Whether two landings meet in a quarter of a minute is up to the machine: the next seed is tried until they
do."""


def test_behind_a_catalog_that_applies_whatever_it_may_the_requirements_keep_every_log_once(
    tmp_path: Path,
) -> None:
    for seed in SEEDS:
        done, counted = run(tmp_path / str(seed), *FENCE, "--seed", str(seed))

        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
        assert counted["found"]["wrong"] == CLEAN
        if counted["conflicts"]:
            return
    raise AssertionError("no two landings met, so nothing was proven")


def test_without_requirements_such_a_catalog_lets_logs_in_twice(tmp_path: Path) -> None:
    for seed in SEEDS:
        place = tmp_path / str(seed)
        done, counted = run(place, *FENCE, "--seed", str(seed), "--no-fence")
        if counted["found"]["wrong"]["duplicate"] + counted["found"]["wrong"]["lost"]:
            assert done.returncode == 1
            kept = place / "chaos" / "failures"
            assert [json.loads(path.read_text())["seed"] for path in kept.glob("*/account.json")] == [seed]
            return
    raise AssertionError("no log came twice and none was lost: the requirements prove nothing")


def test_a_run_worker_waits_at_a_point_until_it_is_answered(tmp_path: Path) -> None:
    program = """
import logging
from chaos.line import Points
for event in ("STEP_START", "landing: publish", "landing: publish.done"):
    record = logging.LogRecord("dagster", 20, "", 0, event, None, None)
    record.dagster_meta = {"run_id": "a-run"}
    Points().emit(record)
    print(event, flush=True)
"""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "line"))
        listener.listen()
        worker = subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, VARIABLE: str(tmp_path / "line")},
            stdout=subprocess.PIPE,
        )
        with worker, listener.accept()[0] as line, line.makefile() as lines:
            for said in (f"run a-run {worker.pid}", "begun", "publish"):
                assert lines.readline().strip() == said
                assert worker.pid in started_by(os.getpid())
                if said != "publish":
                    line.send(b"\n")
            worker.kill()
            assert worker.stdout is not None
            assert worker.stdout.read() == b"STEP_START\n"


_CALLER = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as line, line.makefile("rw") as said:
    for word in sys.stdin:
        print(word, end="", file=said, flush=True)
        print(said.readline(), end="", flush=True)
"""


@contextmanager
def calling(port: int, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process in `folder` that sends each line of its input, and prints what is answered."""
    folder.mkdir(parents=True)
    command = [sys.executable, "-u", "-c", _CALLER, str(port)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, text=True, stdin=pipe, stdout=pipe) as process:
        yield process
        process.kill()


def ask(process: subprocess.Popen[str]) -> None:
    """Send a line."""
    assert process.stdin is not None
    process.stdin.write("hello\n")
    process.stdin.flush()


def heard(process: subprocess.Popen[str]) -> bool:
    """Whether an answer comes."""
    assert process.stdout is not None
    return process.stdout.readline() == "hello\n"


def test_a_worker_that_is_cut_off_hears_nothing_while_the_other_one_does(tmp_path: Path) -> None:
    """Line by line back, so that what passes is seen: on a connection that is up, and on a new one."""
    with socket.create_server(("127.0.0.1", 0)) as service:
        echo = Thread(target=_echo, args=(service,), daemon=True)
        echo.start()
        with Network(service.getsockname()[1], tmp_path) as network:
            port = int(network.endpoint.rpartition(":")[2])
            with (
                calling(port, tmp_path / "worker-0" / "app" / "0") as cut,
                calling(port, tmp_path / "worker-1" / "app" / "0") as other,
            ):
                for process in (cut, other):
                    ask(process)
                    assert heard(process)

                network.down("worker-0")
                # Its answer comes behind the word that cuts the first one off.
                ask(other)
                assert heard(other)
                with calling(port, tmp_path / "worker-0" / "app" / "1") as new:
                    ask(cut)
                    ask(new)
                    for _ in range(20):
                        ask(other)
                        assert heard(other)
                    assert not heard_of(cut, new)

                    network.up("worker-0")
                    assert heard(cut)
                    assert heard(new)


def heard_of(*processes: subprocess.Popen[str]) -> int:
    """How many have an answer that was not read."""
    with selectors.DefaultSelector() as selector:
        for process in processes:
            assert process.stdout is not None
            selector.register(process.stdout, selectors.EVENT_READ)
        return len(selector.select(timeout=0))


def _echo(service: socket.socket) -> None:
    def serve(line: socket.socket) -> None:
        while data := line.recv(100):
            line.sendall(data)

    while True:
        Thread(target=serve, args=(service.accept()[0],), daemon=True).start()


Row = dict[str, Any]


@dataclass(frozen=True)
class Story:
    """Two streams: stream 0 in shard 0, which was split, so that it went on in shard 1; stream 1 in shard 2.

    `files` are (sequence number of the commit, brought by a live run, rows).
    """

    files: list[tuple[int, bool, list[Row]]] = field(default_factory=list)

    def of(self, number: int) -> list[Row]:
        """The rows of one file."""
        return self.files[number][2]

    def at(self, number: int, sequence: int, *, live: bool = True) -> "Story":
        """The same, but another commit brought file `number`."""
        files = list(self.files)
        files[number] = (sequence, live, self.of(number))
        return replace(self, files=files)


STORED = [(0, 10, 0, range(3)), (0, 11, 0, range(3, 6)), (1, 20, 0, range(6, 9)), (2, 30, 1, range(4))]
"""(shard, cursor, stream, numbers) of each stored LogGroup."""
SHARDS = [
    {"shardID": 0, "inclusiveBeginKey": "00", "exclusiveEndKey": "80"},
    {"shardID": 1, "inclusiveBeginKey": "00", "exclusiveEndKey": "40"},
    {"shardID": 2, "inclusiveBeginKey": "80", "exclusiveEndKey": "ff"},
]


def landed() -> Story:
    """Everything as it should be: one file a LogGroup, in order."""
    files = []
    for sequence, (shard, cursor, k, numbers) in enumerate(STORED, 1):
        rows = [
            {"__shard__": shard, "__cursor__": cursor, "__index__": i, "k": k, "q": q,
             "__rest__": [("v", value_of(k, q))], "__error__": None}
            for i, q in enumerate(numbers)
        ]  # fmt: skip
        files.append((sequence, True, rows))
    return Story(files)


def found(story: Story, folder: Path, beside: Beside | None = None) -> Found:
    """What the verifier says of it."""
    schema = pa.schema(
        [
            ("__shard__", pa.int32()),
            ("__cursor__", pa.int64()),
            ("__index__", pa.int32()),
            ("k", pa.int32()),
            ("q", pa.int64()),
            ("__rest__", pa.map_(pa.string(), pa.string())),
            ("__error__", pa.string()),
        ]
    )
    listed = []
    for number, (sequence, live, rows) in enumerate(story.files):
        path = str(folder / f"{number}.parquet")
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
        listed.append((path, sequence, live))
    dump = [
        {"shard": shard, "cursor": cursor, "raw": base64.b64encode(group(k, numbers, 0))}
        for shard, cursor, k, numbers in STORED
    ]
    return prove(files_table(listed), shards_of(SHARDS), truth_of(dump), beside)


def lose(story: Story) -> Story:
    del story.of(0)[1]
    return story


def repeat(story: Story) -> Story:
    story.of(1).append(story.of(1)[0])
    return story


def repeat_elsewhere(story: Story) -> Story:
    """The same log at a place where none is stored: invented, and its name is there twice."""
    story.of(3).append({**story.of(3)[-1], "__cursor__": 99})
    return story


def alter(story: Story) -> Story:
    story.of(2)[0]["__rest__"] = [("v", "something else")]
    return story


def swap_cursors(story: Story) -> Story:
    """The content of two places is exchanged."""
    first, second = story.of(3)[:2]
    first["q"], second["q"] = second["q"], first["q"]
    return story


def late_in_its_shard(story: Story) -> Story:
    """The second group of shard 0 was landed before the first one: three logs of a shard and of a stream."""
    return story.at(0, 2).at(1, 1)


def child_first(story: Story) -> Story:
    return story.at(2, 1).at(0, 2).at(1, 3)


def child_with_parent(story: Story) -> Story:
    return story.at(2, 2)


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (lose, {"lost": 1}),
        (repeat, {"duplicate": 2}),
        (repeat_elsewhere, {"invented": 1, "duplicate": 1}),
        (alter, {"altered": 1}),
        (swap_cursors, {"altered": 2, "out of order": 1}),
        (late_in_its_shard, {"out of order": 6}),
        (child_first, {"child before parent": 1, "out of order": 6}),
        (child_with_parent, {"child before parent": 1}),
    ],
)
def test_the_verifier_sees_what_is_planted(
    plant: Callable[[Story], Story], expected: Mapping[str, int], tmp_path: Path
) -> None:
    assert found(plant(landed()), tmp_path).wrong == {**CLEAN, **expected}


def test_the_verifier_finds_nothing_where_nothing_is_wrong(tmp_path: Path) -> None:
    assert found(landed(), tmp_path).wrong == CLEAN


def test_the_verifier_lets_a_backfill_bring_hours_in_any_order(tmp_path: Path) -> None:
    assert found(landed().at(2, 0, live=False), tmp_path).wrong == CLEAN


GAP, CUT = ("gap", 0, 10, 11), ("cut", 0, 0, 11)
WITHDRAWN, UNDONE = ("withdrawn", 1, 20, 21), ("undone", 1, 20, 21)
Interval = tuple[str, int, int, int]


def without(number: int) -> Story:
    """One file is not there."""
    story = landed()
    return Story([*story.files[:number], *story.files[number + 1 :]])


@pytest.mark.parametrize(
    ("missing", "intervals", "expected"),
    [
        (0, [GAP, CUT], (0, 3, 0)),
        (0, [GAP], (3, 0, 0)),
        (0, [CUT], (3, 0, 0)),
        (0, [GAP, ("cut", 0, 0, 10)], (3, 0, 0)),
        (0, [GAP, ("cut", 2, 0, 99)], (3, 0, 0)),
        (2, [WITHDRAWN, UNDONE], (0, 0, 3)),
        (2, [WITHDRAWN], (3, 0, 0)),
        (2, [UNDONE], (3, 0, 0)),
        (2, [WITHDRAWN, ("cut", 1, 0, 99)], (3, 0, 0)),
    ],
)
def test_a_row_is_excused_only_by_a_ledger_and_a_deed_that_agree(
    missing: int, intervals: list[Interval], expected: tuple[int, int, int], tmp_path: Path
) -> None:
    counted = found(without(missing), tmp_path, Beside(intervals=intervals_table(intervals)))

    assert (counted.wrong["lost"], counted.gapped, counted.withdrawn) == expected


@pytest.mark.parametrize("interval", [GAP, WITHDRAWN])
def test_a_row_in_the_table_that_the_ledger_denies_is_a_contradiction(
    interval: Interval, tmp_path: Path
) -> None:
    counted = found(landed(), tmp_path, Beside(intervals=intervals_table([interval])))

    assert counted.wrong == {**CLEAN, "contradicted": 3}


def test_an_acknowledged_log_that_the_service_has_not_is_unkept(tmp_path: Path) -> None:
    counted = found(landed(), tmp_path, Beside(acked=acked_table([(0, 5, 6)])))

    assert counted.wrong == {**CLEAN, "unkept": 2}


def test_order_is_judged_on_files_as_they_landed_and_a_file_nobody_saw_is_told(tmp_path: Path) -> None:
    story = landed()
    found(story, tmp_path)  # writes the files
    paths = [str(tmp_path / f"{number}.parquet") for number in range(len(story.files))]
    compacted = files_table([(path, 9, True) for path in paths])
    history = files_table([(path, 5 - number, True) for number, path in enumerate(paths[1:])])

    counted = prove(compacted, shards_of(SHARDS), [], Beside(history=history))

    assert counted.wrong["child before parent"] == 1
    assert counted.untold == len(story.of(0))
