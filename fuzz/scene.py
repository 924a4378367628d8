"""One round's service, lake and model: what is there is read here, and held against what must be."""

import base64
import io
import json
import os
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from aliyun.log import log_logs_raw_pb2 as pb
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from chaos.engine import InProcess
from fuzz import strangers
from fuzz.lane import Broken
from fuzz.model import CONTRACTS, Log, Model, Place, Row, Saved, Store, Told
from pipelines.cli.main import run as command_line
from pipelines.landing.inspection.proof import NOT_VERIFIED, Proof
from pipelines.landing.inspection.verify import verify
from pipelines.landing.ledger import codec
from pipelines.landing.logstore import Logstore
from sls_io.emulator import Emulator
from sls_io.values.claim import GAP_SKIPPED, Ledger
from sls_io.values.errors import InvariantBroken, SlsError
from sls_io.values.settings import Service
from sls_io.wire.client import SlsClient
from tests.worlds.lossy_catalog import LossyCatalog, lossy
from tests.worlds.one_logstore import content, group, make_lake

HOUR_S = 3600
BEGIN_S = 1_790_000_000 // HOUR_S * HOUR_S
"""The start of the receive hour every round begins in."""
_CATALOG = "PYICEBERG_CATALOG__LAKE__"


class Refused(SlsError):
    """A verb of the command line said no."""


@dataclass(frozen=True)
class Seen:
    """What a refused verb leaves as it was."""

    head: int | None
    tag: int | None
    schema: int
    rows: frozenset[tuple[Row, int]]


class Scene:
    """A project with one or two logstores that land in one table, with the clock standing still."""

    def __init__(self, emulator: Emulator, folder: Path, seed: int, shards: list[int]) -> None:
        self.emulator, self.folder = emulator, folder
        self.project, self.table_name = f"fuzz-{seed}", f"bronze.t{seed}"
        self.now_s, self.counter, self.told_rows = BEGIN_S + 60, 0, 0
        emulator.admin.set_clock(self.now_s)
        emulator.admin.freeze()
        self.engine = InProcess()
        self.lake = make_lake(folder / "lake")
        self.lossy, _ = lossy(self.lake)
        self.names = [f"logs_{letter}" for letter, _ in zip("ab", shards, strict=False)]
        self.model = Model({name: Store() for name in self.names})
        self._texts: dict[str, int] = {"": 0}
        settings = self.logstore(self.names[0])
        with SlsClient(settings.service) as client:
            client.transport.create_project(self.project, "")
            for name, count in zip(self.names, shards, strict=True):
                client.transport.create_logstore(self.project, name, ttl=3650, shard_count=count)
        self.origins = {}
        for name in self.names:
            with self.client(name) as client:
                self.origins[client.origin().id] = name
        for name, value in self.lake.properties.items():
            os.environ[f"{_CATALOG}{name.upper()}"] = value
        os.environ["SLS_LAKE_HOME"] = str(folder / "home")

    def close(self) -> None:
        """Forget the project."""
        with self.client(self.names[0]) as client:
            for name in self.names:
                client.transport.delete_logstore(self.project, name)
            client.transport.delete_project(self.project)
        for name in self.lake.properties:
            os.environ.pop(f"{_CATALOG}{name.upper()}", None)

    # --- the service -------------------------------------------------------------------------------

    def logstore(self, name: str) -> Logstore:
        """Its settings, with the contract of today."""
        service = Service(endpoint=self.emulator.endpoint, project=self.project, logstore=name, tries_max=4)
        return Logstore.model_validate(
            {
                "service": service.model_dump(exclude_defaults=True),
                "group": {
                    "name": "lake", "timeout_s": 30, "heartbeat_s": 1,
                    "patience_s": 5,
                },
                "table": self.table_name,
                "shared": True,
                "start": "2026-01-01-00:00",
                "columns": dict(CONTRACTS[self.model.contract]),
            }
        )  # fmt: skip

    def client(self, name: str) -> SlsClient:
        """A fresh client of a logstore."""
        return SlsClient(self.logstore(name).service)

    def advance(self, duration_s: int) -> None:
        """Move the service's clock on."""
        self.now_s += duration_s
        self.emulator.admin.set_clock(self.now_s)

    @property
    def hour(self) -> int:
        """The receive hour of now."""
        return self.now_s // HOUR_S

    def put(self, name: str, logs: list[tuple[str, str]], *, key: str) -> None:
        """A LogGroup of (status, path) pairs, numbered on."""
        pairs = [
            {"n": str(self.counter + i), "status": status, "path": path}
            for i, (status, path) in enumerate(logs)
        ]
        self.counter += len(pairs)
        with self.client(name) as client:
            client.put_raw(group(pairs, time_s=self.now_s), key=key)
        self.look_at_service(name)

    def look_at_service(self, name: str) -> None:
        """Take over what the service has now, from its own dump."""
        store, alive = self.model.stores[name], set[Place]()
        for entry in self.emulator.admin.dump(self.project, name):
            message = pb.LogGroupRaw()
            message.ParseFromString(base64.b64decode(entry["raw"]))
            for index, log in enumerate(message.Logs):
                place = (int(entry["shard"]), int(entry["cursor"]), index)
                alive.add(place)
                pairs = {c.Key: c.Value.decode() for c in log.Contents}
                store.logs.setdefault(place, Log(int(entry["time"]) // HOUR_S, pairs))
        store.alive = alive

    # --- the table ---------------------------------------------------------------------------------

    @property
    def table(self) -> Table | None:
        """As it is now, through the plain catalog."""
        return self.lake.load(self.table_name)

    @property
    def catalog(self) -> LossyCatalog:
        """The catalog that loses answers."""
        catalog = self.lossy.catalog()
        assert isinstance(catalog, LossyCatalog)
        return catalog

    def rows(self, table: Table | None, snapshot: int | None = None) -> Counter[Row]:
        """Every row the table shows, row-level deletes applied; content is held against what was put."""
        found: Counter[Row] = Counter()
        if table is None:
            return found
        for row in table.scan(snapshot_id=snapshot).to_arrow().to_pylist():
            name = self.origins.get(row["__origin__"], row["__origin__"])
            place = (row["__shard__"], row["__cursor__"], row["__index__"])
            found[name, place, row["__error__"] is not None] += 1
            log = self.model.stores[name].logs.get(place) if name in self.model.stores else None
            if log is not None and snapshot is None:
                self.told_rows += 1
                hour = int(row["__receive_hour__"].timestamp()) // HOUR_S
                if hour != log.hour or content(row) != log.pairs:
                    raise Broken(f"{name} {place}: hour {hour}, {content(row)}, put as {log}")
                if (row["__error__"] is None) != (row["__raw__"] is None):
                    raise Broken(
                        f"{name} {place}: error {row['__error__']!r} without its bytes, or the reverse"
                    )
        return found

    def seen(self) -> Seen:
        """What there is now."""
        table = self.table
        if table is None:
            return Seen(None, None, 0, frozenset())
        tag = table.metadata.refs.get(codec.TAG)
        return Seen(
            table.metadata.current_snapshot_id,
            tag.snapshot_id if tag else None,
            table.metadata.current_schema_id,
            frozenset(self.rows(table).items()),
        )

    def ledgers(self, snapshot: Snapshot | None) -> dict[str, Ledger]:
        """Of each of our logstores that has a ledger in this snapshot's summary."""
        said = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
        texts = {n: said.get(codec.LEDGER_PREFIX + o) for o, n in self.origins.items()}
        origins = {n: o for o, n in self.origins.items()}
        return {n: codec.decode(origins[n], text) for n, text in texts.items() if text is not None}

    def tagged(self) -> Snapshot | None:
        """The snapshot of the newest landing."""
        table = self.table
        tag = table.metadata.refs.get(codec.TAG) if table is not None else None
        return table.snapshot_by_id(tag.snapshot_id) if table is not None and tag else None

    def at(self, snapshot_id: int) -> Saved:
        """The table at a snapshot: as the model had it then, or, of one that it did not see, as it lies
        there."""
        found = self.model.saved.get(snapshot_id)
        table = self.table
        snapshot = table.snapshot_by_id(snapshot_id) if table is not None else None
        if found is not None:
            return found
        if snapshot is None:
            raise Broken(f"snapshot {snapshot_id} was named, and metadata does not have it")
        rows = self.rows(table, snapshot_id)
        told = {}
        for name, ledger in self.ledgers(snapshot).items():
            store = self.model.stores[name]
            landed = {p for p in store.logs if _within(ledger, p, "landed")}
            there = Counter(r[1] for r in rows.elements() if r[0] == name)
            told[name] = Told(
                landed,
                {p for p in store.logs if _within(ledger, p, "withdrawn")},
                there - Counter(landed - store.forgotten),
                {p for p in store.logs if where(ledger, p) == "skipped"},
            )
        said = snapshot.summary.additional_properties if snapshot.summary else {}
        others = codec.decode_adopted(said.get(codec.ADOPTED_KEY, "")).others
        forgotten = self._texts.get(said.get(codec.FORGOTTEN_KEY, ""), -1)
        return Saved(rows, told or None, others, forgotten)

    # --- held against one another ------------------------------------------------------------------

    def compare(self) -> None:
        """The table is what the model says, its ledger is, and verify is green exactly when both agree."""
        table, model = self.table, self.model
        if table is None:
            return
        rows = self.rows(table)
        if rows != model.rows:
            raise Broken(difference("rows", rows, model.rows))
        model.dangling = strangers.deletes(table) - (strangers.records(table) - rows.total())
        model.lineage = strangers.lineage(table) if table.current_snapshot() is not None else "well"
        self._compare_ledgers()
        head = table.current_snapshot()
        if head is not None and head.snapshot_id not in model.saved:
            said = head.summary.additional_properties if head.summary else {}
            landing = any(key.startswith(codec.LEDGER_PREFIX) for key in said)
            if landing:
                self._texts.setdefault(said.get(codec.FORGOTTEN_KEY, ""), model.contained)
            model.save(head.snapshot_id, landing=landing)
        for name in self.names:
            if name in model.told:
                self.prove(name)

    def _compare_ledgers(self) -> None:
        model = self.model
        if model.lineage != "well":
            return
        ledgers = self.ledgers(self.tagged())
        for name, told in model.told.items():
            if (told is None) != (name not in ledgers):
                raise Broken(
                    f"{name}: the model has {'no' if told is None else 'a'} ledger, the table not so"
                )
            if told is None:
                continue
            ledger, store = ledgers[name], model.stores[name]
            for place in store.logs:
                found = where(ledger, place)
                wanted = "landed" if place in told.landed else "withdrawn" if place in told.withdrawn else ""
                wanted = "skipped" if place in told.skipped else wanted
                if found == "gap" and place in store.alive:
                    raise Broken(f"{name} {place} is called a gap, and the service still has it")
                if found != wanted and not (found == "gap" and not wanted):
                    raise Broken(
                        f"{name} {place} is {found or 'open'} in the ledger, must be {wanted or 'open'}"
                    )
            rows = Counter(place[0] for place in told.landed - store.forgotten)
            said = {shard: entry.rows for shard, entry in ledger.shards.items() if entry.rows}
            if said != dict(rows):
                raise Broken(f"{name}: the ledger counts {said} rows, {dict(rows)} landed and stay")

    def prove(self, name: str, *, pull: bool = False) -> Proof:
        """What verify says, which has to be green exactly when it may be."""
        with self.client(name) as client:
            proof = verify(self.logstore(name), self.lake, client, pull=pull)
        wanted = self.model.proven
        if (proof.verdict != NOT_VERIFIED) != wanted:
            said = [*proof.problems, *(p for s in proof.shards for p in s.problems)]
            raise Broken(f"verify of {name} says {proof.verdict} {said}; {self.why(name)}")
        return proof

    def why(self, name: str) -> str:
        """How the model sees a logstore, in a line."""
        model = self.model
        return (
            f"the model says: proven {model.proven}, trusted {model.trusted}, {model.lineage}, short "
            f"{sorted((model.expected(name) - model.there(name)).elements())}, strange "
            f"{sorted((model.there(name) - model.expected(name)).elements())}, removals {model.contained} of "
            f"{model.decided}, rows {model.rows.total()}, known {model.known}"
        )

    # --- the command line --------------------------------------------------------------------------

    def cli(self, name: str, *arguments: str, debug: bool = False) -> tuple[int, dict[str, Any]]:
        """Exit code and document of a verb. Raises Refused with its sentence where there is no document."""
        path = self.folder / f"{name}.yaml"
        attributes = self.logstore(name).model_dump(mode="json", exclude_defaults=True)
        path.write_text(
            yaml.safe_dump({"type": "pipelines.components.SlsLogstore", "attributes": attributes})
        )
        out, err = io.StringIO(), io.StringIO()
        words = [*arguments, "--logstore", str(path), "--json", *(["--debug"] if debug else [])]
        with redirect_stdout(out), redirect_stderr(err):
            code = command_line(words)
        document = json.loads(out.getvalue()) if out.getvalue().strip() else {}
        if code in (1, 2) and (not document or "error" in document):
            if len(err.getvalue()) < 20 or "did not foresee" in err.getvalue():
                raise InvariantBroken(f"{' '.join(arguments)}: exit code {code}, said {err.getvalue()!r}")
            raise Refused(err.getvalue().strip())
        if code not in (0, 1) or not document:
            raise InvariantBroken(f"{' '.join(arguments)}: exit code {code} with {out.getvalue()[:200]!r}")
        return code, document


def difference(what: str, there: Counter[Row], wanted: Counter[Row]) -> str:
    """Both sides, shortened."""
    more, less = sorted((there - wanted).elements()), sorted((wanted - there).elements())
    return f"{what}: {len(more)} too many {more[:12]}, {len(less)} missing {less[:12]}"


def _within(ledger: Ledger, place: Place, kind: str) -> bool:
    entry = ledger.shards.get(place[0])
    intervals = getattr(entry, kind) if entry else ()
    return any(begin <= place[1] < end for begin, end in intervals)


def where(ledger: Ledger, place: Place) -> str:
    """What the ledger calls a log: landed, withdrawn, skipped, gap; "" where nobody has settled it."""
    entry = ledger.shards.get(place[0])
    for gap in entry.gaps if entry else ():
        if gap.begin <= place[1] < gap.end:
            return "skipped" if gap.cause == GAP_SKIPPED else "gap"
    return next((kind for kind in ("landed", "withdrawn") if _within(ledger, place, kind)), "")
