"""Mutated LogGroups through a real emulator and a landing; the table beside an independent reader.

A round is a logstore and a table of its own: generated groups, most of them mutated, are put, landed in
small pages, verified with a second pull, and every row is compared with what `group_oracle.py` reads from
the bytes that the service stored. Half of the rounds declare personal data.
"""

import base64
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from chaos.engine import InProcess
from fuzz.ground import new_lake, serving
from fuzz.group_fields import CANARY, mutated, valid
from fuzz.group_oracle import LONG, Group, Log, read_group
from fuzz.lane import Broken, drawn
from pipelines.landing.inspection.verify import verify
from pipelines.landing.logstore import Logstore
from pipelines.landing.operations.mend import plan_mend
from pipelines.landing.run.driver import Run
from sls_io.emulator import Emulator, Limits
from sls_io.wire.client import SlsClient

PROJECT = "fuzz"
NOW_S = 1_790_000_000 // 3600 * 3600 + 60
PLAIN = {"n": "long", "s": "string"}
GUARDED = {**PLAIN, "secret": "drop", "mail": "hash"}
Identity = tuple[int, int, int]


@dataclass
class Groups:
    """The lane: one emulator for all rounds."""

    emulator: Emulator
    folder: Path
    rounds_min: int = 20
    counts: Counter[str] = field(default_factory=Counter)

    def play(self, seed: int) -> None:
        """One logstore, put, landed, read back. Raises Broken."""
        rng = drawn(seed)
        columns = GUARDED if rng.random() < 0.5 else PLAIN
        logstore = self._logstore(f"round-{seed}", columns, rng.choice((1, 2, 5, 100)))
        lake = new_lake(self.folder / str(seed))
        with SlsClient(logstore.service) as client:
            client.transport.create_logstore(PROJECT, logstore.service.logstore, ttl=30, shard_count=1)
            for _ in range(rng.choice((1, 3, 8, 15))):
                raw = valid(rng)
                client.put_raw(mutated(raw, rng, self.counts) if rng.random() < 0.8 else raw)
            self.emulator.admin.advance(120)
            with Run(logstore, InProcess(), lake=lake) as run:
                report = run.land()
                verdict = run.reconcile()
                run.checkpoint()
            proof = verify(logstore, lake, client, pull=True)
            if not verdict.ok or not proof.ok or report.waits:
                raise Broken(f"{verdict.problems} {proof} {report.waits}")
            again = plan_mend(lake, logstore, client, range(NOW_S // 3600, NOW_S // 3600 + 10**5)).view
            if again.changed:
                raise Broken(f"the same contract reads kept bytes another way: {again}")
        table = lake.load(logstore.table)
        rows = table.scan().to_arrow().to_pylist() if table is not None else []
        self._compare(logstore.service.logstore, rows, columns is GUARDED)
        with SlsClient(logstore.service) as client:
            client.transport.delete_logstore(PROJECT, logstore.service.logstore)
        shutil.rmtree(self.folder / str(seed))

    def _logstore(self, name: str, columns: dict[str, str], page_groups_max: int) -> Logstore:
        return Logstore.model_validate(
            {
                "service": {"endpoint": self.emulator.endpoint, "project": PROJECT, "logstore": name},
                "group": {"name": "lake", "timeout_s": 30, "heartbeat_s": 1},
                "table": f"fuzz.{name.replace('-', '_')}",
                "start": "2026-01-01-00:00",
                "columns": columns,
                "budget": {"page_groups_max": page_groups_max},
            }
        )

    def _compare(self, name: str, rows: list[dict[str, Any]], guarded: bool) -> None:
        found: dict[Identity, dict[str, Any]] = {}
        for row in rows:
            identity = row["__shard__"], row["__cursor__"], row["__index__"]
            if identity in found:
                raise Broken(f"{identity} is there twice")
            found[identity] = row
        expected = 0
        for entry in self.emulator.admin.dump(PROJECT, name):
            group = read_group(base64.b64decode(entry["raw"]))
            logs = [Log(group.raw, readable=False)] if group.logs is None else group.logs
            self.counts.update({"groups": 1, "logs": len(logs), "groups unreadable": group.logs is None})
            for index, log in enumerate(logs):
                expected += 1
                identity = int(entry["shard"]), int(entry["cursor"]), index
                if identity not in found:
                    raise Broken(f"{identity} is not in the table")
                try:
                    compare(found[identity], group, log, guarded)
                except Broken as broken:
                    raise Broken(f"{identity}: {broken}; the log {log!r}") from None
                self.counts["rows with error"] += found[identity]["__error__"] is not None
                self.counts["logs unreadable"] += group.logs is not None and not log.readable
        if len(found) != expected:
            raise Broken(f"{len(found)} rows, {expected} logs")


def compare(row: dict[str, Any], group: Group, log: Log, guarded: bool) -> None:
    """A row beside what the bytes say. Raises Broken."""
    error, raw = row["__error__"], row["__raw__"]
    if not log.readable:
        _compare_unreadable(row, group, log, guarded)
        return
    n = {k or b"": v for k, v in log.pairs}.get(b"n")
    clear = n is None or LONG.fullmatch(n.decode("utf-8", "replace")) is not None
    trouble = log.trouble or group.trouble
    if (error is None) != (raw is None):
        raise Broken("a cause without bytes, or bytes without a cause")
    quiet = guarded and not group.trouble  # a dropped key's trouble is nobody's
    if error is None and not quiet and (trouble or n in (b"many", b"x", b"")):
        raise Broken("it has no cause")
    if error is not None and not trouble and clear:
        raise Broken(f"it has a cause: {error}")
    if raw is not None and not guarded and raw != log.raw:
        raise Broken(f"it has other bytes: {raw!r}")
    if error is not None and len(error) > 4000:
        raise Broken("its cause is long")
    _compare_moment(row, log)
    if not guarded and (shown := _content(row)) != log.content():
        raise Broken(f"it has other content: {shown}")
    if guarded:
        _compare_guarded(row, group, log)
    if not group.trouble:
        tags = {(k or b"").decode(): (v or b"").decode() for k, v in group.tags} or None
        head = row["__topic__"], row["__source__"], dict(row["__tags__"]) if row["__tags__"] else None
        if head != (_text(group.topic), _text(group.source), tags):
            raise Broken(f"its group is another: {head}")


def _compare_unreadable(row: dict[str, Any], group: Group, log: Log, guarded: bool) -> None:
    kind = "group cannot be read" if group.logs is None else "log cannot be read"
    if not (row["__error__"] or "").startswith(kind):
        raise Broken(f"its cause is {row['__error__']!r}, must be {kind!r}")
    withheld = guarded and (b"secret" in log.raw or b"mail" in log.raw)
    if row["__raw__"] != (None if withheld else log.raw):
        raise Broken(f"its bytes are {row['__raw__']!r}, withheld must be {withheld}")
    if row["__time__"] is not None or _content(row):
        raise Broken("it shows what nobody can have read")


def _compare_moment(row: dict[str, Any], log: Log) -> None:
    moment = None
    if log.seconds is not None:
        nanos = (log.nanos or 0) if (log.nanos or 0) <= 999_999_999 else 0
        moment = datetime.fromtimestamp(log.seconds, UTC) + timedelta(microseconds=nanos // 1000)
    if row["__time__"] != moment:
        raise Broken(f"its time is {row['__time__']}, must be {moment}")


def _compare_guarded(row: dict[str, Any], group: Group, log: Log) -> None:
    """No value of a dropped or hashed key is anywhere in the row, but where another key has it, too, or the
    group's head: a mutation makes a log the source of its group."""
    private = {v for k, v in log.pairs if k in (b"secret", b"mail") and v and CANARY.encode() in v}
    public = {v for k, v in log.pairs if k not in (b"secret", b"mail")}
    text = repr(row)
    head = b" ".join(
        [group.topic or b"", group.source or b"", *(x or b"" for tag in group.tags for x in tag)]
    )
    for value in (v for v in private - public if v not in head):
        if value.decode("utf-8", "replace") in text or repr(value)[2:-1] in text:
            raise Broken("it shows personal data")
    shown = {k: v for k, v in _content(row).items() if k not in ("secret", "mail")}
    if shown != {k: v for k, v in log.content().items() if k not in ("secret", "mail")}:
        raise Broken(f"it has other content: {shown}")


def _content(row: dict[str, Any]) -> dict[str, str]:
    pairs = {k: str(v) for k, v in row.items() if not k.startswith("__") and v is not None}
    return {**pairs, **dict(row["__rest__"] or [])}


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


@contextmanager
def open_lane(folder: Path) -> Iterator[Groups]:
    """The lane with an emulator in `folder`."""
    with serving(folder / "emulator", limits=Limits(check_groups=False), now=float(NOW_S)) as emulator:
        lane = Groups(emulator, folder / "lakes")
        with SlsClient(lane._logstore("none", PLAIN, 1).service) as client:
            client.transport.create_project(PROJECT, "")
        yield lane
