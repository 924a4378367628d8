"""Logs landed with one contract and read again with another, beside the same logs landed with the other.

A round draws two contracts and some logs. They land in a table under the first; then `backfill --mode errors`
and `--mode rest`, in either order, read the rows again under the second; and in some rounds under a third.
Beside it the twin: a logstore that was sent what the contracts before let the table keep, landed once, under
the last. Every column of every row must be the twin's, but for what the documents allow, each for a reason:

- origin, shard, cursor, receive hour are a row's own, and stay (ARCHITECTURE, "identities stay")
- what the first contract dropped is gone, and what it hashed is a digest (reference, `columns`): so the twin
  was sent that, and its contract takes a digest as it is: a digest stays one
- a column that the second contract does not declare stays as it is, of a removed key or another engine's:
  nobody can tell the two apart. The twin has the values of a removed key in `__rest__` alone
- a row without an error is not decoded again, since its bytes were not kept. It gets no error. A key that had
  a column keeps it as it was read, and nothing of it is in `__rest__`: also where its type is another one by
  now. What was in `__rest__` is read by the second contract; what does not fit stays there (ARCHITECTURE, "A
  column that was declared later"), and so does what is not what its column has already
- a key that is declared `drop` or `hash` by now has no plain value left, in no row. In a row without an error
  the digest is that of the text that stood in the column, whatever bytes it was read from
- bytes that were withheld by the first contract stay withheld
- a contract that says no more `drop` or `hash` of a key is refused until a person has said that its values
  may land as they are sent (`table columns --plain`)
"""

import math
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pyiceberg.types import LongType

from chaos.engine import InProcess
from fuzz import kept_logs
from fuzz.ground import new_lake, serving
from fuzz.kept_logs import Group, Types
from fuzz.lane import Broken, drawn
from pipelines.landing.commit.planned import execute
from pipelines.landing.inspection.verify import verify
from pipelines.landing.logstore import Logstore
from pipelines.landing.operations.columns import plan_columns
from pipelines.landing.operations.mend import plan_mend
from pipelines.landing.run.driver import Run
from pipelines.landing.table.lake import Lake
from pipelines.landing.table.names import protected_keys
from sls_io.emulator import Emulator, Limits
from sls_io.values.errors import ConfigError
from sls_io.wire.client import SlsClient

PROJECT = "fuzz"
NOW_S = 1_790_000_000 // 3600 * 3600 + 60
HOURS = range(NOW_S // 3600, NOW_S // 3600 + 10**5)
OWN = ("__origin__", "__shard__", "__cursor__", "__receive_hour__")
THEIRS = "remark_of_theirs"
MODES: tuple[Literal["errors", "rest"], ...] = ("errors", "rest")
Row = dict[str, Any]


@dataclass
class Reread:
    """The lane: one emulator for all rounds."""

    emulator: Emulator
    folder: Path
    rounds_min: int = 20
    counts: Counter[str] = field(default_factory=Counter)

    def play(self, seed: int) -> None:
        """One table and its twin. Raises Broken with the contracts and the first row that is wrong."""
        for contracts, rows in self.read_again(seed):
            wrong = [(old, told) for old, is_, must in rows if (told := differences(is_, must))]
            if wrong:
                old, told = wrong[0]
                texts = [f"{name}: is {is_!r}, must be {must!r}" for name, is_, must in told]
                raise Broken(
                    f"{' -> '.join(map(str, contracts))}: {len(wrong)} rows; {'; '.join(texts)}; it was {old}"
                )
        shutil.rmtree(self.folder / str(seed))

    def read_again(self, seed: int) -> Iterator[tuple[list[Types], list[tuple[Row, Row, Row]]]]:
        """Of each time that the table is read again: its contracts up to then; of each row how it was
        before, how it is after, and what it must be."""
        rng = drawn(seed)
        before, after = kept_logs.contracts(rng)
        keys = sorted({*before, *after, *rng.sample(kept_logs.COLUMNS, 2)})
        groups = kept_logs.groups(rng, before if rng.random() < 0.5 else after, keys)
        strangers = rng.random() < 0.2
        name, lake = f"table-{seed}", new_lake(self.folder / str(seed) / "table")
        was = self._landed(lake, name, before, [group.written() for group in groups])
        if strangers:
            _fill_a_column_of_theirs(lake, self._logstore(name, before))
        contracts: list[Types] = [before, after]
        if rng.random() < 0.5:
            contracts.append(kept_logs.another(rng, kept_logs.columns_of(before, after), keys))
            self.counts["tables that had three contracts"] += 1
        for count in range(1, len(contracts)):
            until, now = contracts[:count], contracts[count]
            logstore = self._logstore(name, now)
            self._mend(lake, logstore, rng.choice((MODES, MODES[::-1])))
            found, twin = _rows(lake, logstore), self._twin(f"{seed}-{count}", until, now, groups)
            if not len(was) == len(found) == len(twin):
                raise Broken(f"{len(was)} rows, {len(found)} read again, {len(twin)} of the twin")
            rows = []
            for old, is_, fresh in zip(was, found, twin, strict=True):
                theirs = {THEIRS: old["__cursor__"] + old["__index__"]} if strangers else {}
                rows.append((old, is_, expected(old, fresh, until, now) | theirs))
                self._count(old, is_)
            yield contracts[: count + 1], rows
            was = found

    def _twin(self, name: str, until: list[Types], now: Types, groups: list[Group]) -> list[Row]:
        hidden = kept_logs.hidden_by(*until)
        columns = {k: "string" if hidden.get(k) == kind == "hash" else kind for k, kind in now.items()}
        lake, sent = new_lake(self.folder / name), [group.written(hidden) for group in groups]
        found = self._landed(lake, f"twin-{name}", columns, sent)
        shutil.rmtree(self.folder / name)
        return found

    def _landed(self, lake: Lake, name: str, columns: Types, sent: list[bytes]) -> list[Row]:
        """The rows of a logstore of its own, landed once."""
        logstore = self._logstore(name, columns)
        with SlsClient(logstore.service) as client:
            client.transport.create_logstore(PROJECT, name, ttl=30, shard_count=1)
            for raw in sent:
                client.put_raw(raw)
            self.emulator.admin.advance(120)
        with Run(logstore, InProcess(), lake=lake) as run:
            report = run.land()
            run.checkpoint()
        if report.waits or report.trouble:
            raise Broken(f"{columns}: {report.waits} {report.trouble}")
        return _rows(lake, logstore)

    def _mend(self, lake: Lake, logstore: Logstore, modes: tuple[Literal["errors", "rest"], ...]) -> None:
        """Both modes, and once more, which must change nothing; then the proof."""
        with SlsClient(logstore.service) as client:
            self._lift(lake, logstore, client)
            for mode in modes:
                planned = plan_mend(lake, logstore, client, HOURS, kept_in=mode)
                self.counts[f"{mode}: rows changed"] += planned.view.changed
                if planned.view.changed:
                    execute(lake, planned)
            for mode in MODES:
                again = plan_mend(lake, logstore, client, HOURS, kept_in=mode).view
                if again.changed:
                    raise Broken(f"read again with the same contract {again.changed} rows change: {again}")
            proof = verify(logstore, lake, client, pull=True)
            if not proof.ok:
                raise Broken(f"{proof}")

    def _lift(self, lake: Lake, logstore: Logstore, client: SlsClient) -> None:
        """Say of keys that the contract protects no more that they may land as they are sent; before that
        nothing is read again."""
        table = lake.load(logstore.table)
        name, properties = logstore.service.full_name, table.properties if table is not None else {}
        has = protected_keys(properties, name)
        plain = has - kept_logs.hidden_by(dict(logstore.columns)).keys()
        if not plain:
            return
        try:
            plan_mend(lake, logstore, client, HOURS)
        except ConfigError:
            self.counts["contracts that were refused first"] += 1
        else:
            raise Broken(f"values of {sorted(plain)} would land as they were sent, and nobody was asked")
        execute(lake, plan_columns(lake, logstore, renamed={}, retyped=(), plain=plain))

    def _logstore(self, name: str, columns: Types) -> Logstore:
        return Logstore.model_validate(
            {
                "service": {"endpoint": self.emulator.endpoint, "project": PROJECT, "logstore": name},
                "group": {"name": "lake", "timeout_s": 30, "heartbeat_s": 1},
                "table": f"fuzz.{name.replace('-', '_')}",
                "start": "2026-01-01-00:00",
                "columns": dict(columns),
            }
        )

    def _count(self, old: Row, is_: Row) -> None:
        with_error = old["__error__"] is not None
        self.counts.update(
            {
                "rows": 1,
                "rows that landed with an error": with_error,
                "of them well by now": with_error and is_["__error__"] is None,
                "rows that landed without one": not with_error,
            }
        )


def expected(old: Row, fresh: Row, until: Sequence[Types], after: Types) -> Row:
    """What a row that was `old`, of a table that had the contracts `until`, must be after it was read again
    under `after`; `fresh` is the twin's."""
    own = {name: old[name] for name in OWN}
    had, hidden = kept_logs.columns_of(*until), kept_logs.hidden_by(*until)
    old = dict.fromkeys(had) | old  # a mend that changes no row adds no column
    undeclared = {key: old[key] for key in had if key not in after}
    dropped = {key: None for key in had if after.get(key) == "drop"}
    if old["__error__"] is not None:
        if old["__raw__"] is None:  # withheld
            return {key: None for key, kind in after.items() if kind != "drop"} | old
        return {**fresh, **dropped, **undeclared, **own}
    rest = {key: text for key, text in (fresh["__rest__"] or {}).items() if key not in had}
    rest |= {k: v for k, v in (old["__rest__"] or {}).items() if k in had and after.get(k) != "drop"}
    shown = {}
    for key in had.keys() & kept_logs.columns_of(after).keys():
        plain = after[key] == "hash" != hidden.get(key)
        there = _hidden(old[key]) if plain else old[key]
        read = fresh[key] if key in rest else None
        shown[key] = read if there is None else there
        if read is not None and _same(read, shown[key]):
            del rest[key]
        elif key in rest and plain:
            rest[key] = _hidden(rest[key])
    none = {"__error__": None, "__raw__": None, "__rest__": rest or None}
    return {**fresh, **shown, **dropped, **undeclared, **own, **none}


def _hidden(text: str | None) -> str | None:
    return None if text is None else kept_logs.digest(text.encode()).decode()


def differences(is_: Row, must: Row) -> list[tuple[str, object, object]]:
    """(column, what it is, what it must be) of each that differs."""
    both = [(name, is_.get(name), must.get(name)) for name in sorted({*is_, *must})]
    return [(name, one, other) for name, one, other in both if not _same(one, other)]


def _rows(lake: Lake, logstore: Logstore) -> list[Row]:
    """In the order in which the logs were sent; maps as dicts."""
    table = lake.load(logstore.table)
    if table is None:
        raise Broken("there is no table")
    rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda r: (r["__cursor__"], r["__index__"]))
    return [
        {k: dict(v) if v is not None and k in ("__tags__", "__rest__") else v for k, v in row.items()}
        for row in rows
    ]


def _fill_a_column_of_theirs(lake: Lake, logstore: Logstore) -> None:
    """As another engine does: a column, and files written anew with a value in each row."""
    table = lake.load(logstore.table)
    if table is None:
        raise Broken("there is no table")
    with table.update_schema() as update:
        update.add_column(THEIRS, LongType())
    rows = table.refresh().scan().to_arrow()
    place = rows.schema.get_field_index(THEIRS)
    marks = [
        c + i for c, i in zip(rows["__cursor__"].to_pylist(), rows["__index__"].to_pylist(), strict=True)
    ]
    table.overwrite(rows.set_column(place, rows.schema.field(place), pa.array(marks, pa.int64())))


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return one == other


@contextmanager
def open_lane(folder: Path) -> Iterator[Reread]:
    """The lane with an emulator in `folder`."""
    with serving(
        folder / "emulator", limits=Limits(check_groups=False, logstores_max=10**6), now=float(NOW_S)
    ) as emulator:
        lane = Reread(emulator, folder / "lakes")
        with SlsClient(lane._logstore("none", {}).service) as client:
            client.transport.create_project(PROJECT, "")
        yield lane
