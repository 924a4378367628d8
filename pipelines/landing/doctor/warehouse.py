"""Trials of catalog and storage, with a table of their own: the very commit of a landing, and a stale one.

A catalog that takes a commit without comparing what it requires would let two runs land the same logs. No
setting shows that; sending a stale commit does. Worked example: the first commit requires that main is empty
and makes it snapshot 1. A second one that was built on the empty table requires the same, and must be
refused: main is at 1 by then. A catalog that answers "accepted" here must not be landed on.

Why a table of its own, and the very code of a landing: the logstore's table may not be there yet, and a trial
commit on it would be one that its history shows for ever. A commit put together for a trial would prove
another one than the landing's, which requires main, tag, schema, spec and table id at once; a catalog may
well compare the first of these and ignore the rest. Neither answer is believed. After each commit the table
is loaded again, and what counts is whether the snapshot is in it, as behind a landing whose answer was lost.
"""

import shutil
import uuid
from collections.abc import Iterator
from contextlib import suppress

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NamespaceNotEmptyError, NoSuchNamespaceError
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from pipelines.landing.commit import publish
from pipelines.landing.doctor.trial import Came, Grade, Question
from pipelines.landing.ledger.fence import merge
from pipelines.landing.ledger.reading import is_here
from pipelines.landing.ledger.state import facts, read_state
from pipelines.landing.ledger.values import Delta
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.contract import Contract
from pipelines.landing.table.former import listed
from pipelines.landing.table.lake import ANSWER_S, Lake
from pipelines.landing.table.usable import upkeep_of
from sls_io.planning.values import LedgerChange
from sls_io.values.claim import Ledger
from sls_io.values.clock import Clock
from sls_io.values.cures import Do
from sls_io.values.errors import ConfigError, amount
from sls_io.values.window import Cursor

_PROBE = "sls_lake_doctor"
_RAW_A_BYTE = 9
_BYTES = b"written by a look of sls-lake at its storage"
_EXPIRES = ("history.expire.max-snapshot-age-ms", "history.expire.min-snapshots-to-keep")
"""Table properties by which engines and catalogs expire snapshots on their own."""


class Scratch:
    """A table that is made, committed to and dropped."""

    def __init__(self, logstore: Logstore, lake: Lake, clock: Clock) -> None:
        self._logstore, self._lake, self._clock = logstore, lake, clock
        self._namespace = logstore.table.split(".", maxsplit=1)[0]
        self.name = f"{self._namespace}.{_PROBE}_{uuid.uuid4().hex[:8]}"
        self._new_namespace = False
        self._table: Table | None = None
        self._stale: publish.Request | None = None

    def questions(self) -> Iterator[Question]:
        """All but taking it away."""
        yield Question("catalog", f"{self._lake.place}, opened", self.opened, needed=True)
        yield Question("table", f"{self._logstore.table}, as the catalog has it", self.own)
        yield Question("scratch", f"a new table {self.name}", self.created, needed=True)
        yield Question("files", "a file in its folder: put, get, list, delete", self.files)
        yield Question("commit", "an empty landing, with all that one requires", self.committed, needed=True)
        yield Question("stale", "the same, built on the table before it", self.refused)

    @property
    def table(self) -> Table | None:
        """The table, while it is there."""
        return self._table

    def opened(self) -> str:
        """The catalog, and whether it and the namespace were there. A file of SQLite is made where its path
        is mistyped, too, and who looks for a table in it must be told."""
        path = self._lake.sqlite_path
        fresh = path is not None and not path.exists()
        catalog = self._lake.catalog()
        there = self._lake.answered(lambda: catalog.namespace_exists(self._namespace))
        self._new_namespace = not there
        made = f" and was not there before: {path} is new" if fresh else ""
        return f"it answers{made}; the namespace {self._namespace} is {'there' if there else 'not there yet'}"

    def own(self) -> Came | str:
        """The logstore's own table; a note where others may expire its snapshots, wrong where the catalog
        does. Raises as a landing does that cannot go on from it."""
        table = self._lake.load(self._logstore.table)
        if table is None:
            return "not there yet: the first landing makes it"
        if does := self._by_itself(table):
            return does
        read_state(table)
        set_ = [f"{name}={table.properties[name]}" for name in _EXPIRES if name in table.properties]
        text = f"{amount(len(table.metadata.snapshots), 'snapshot')} at {table.location()}"
        if not set_:
            return text
        change = Do("unset them, or see that what expires by them keeps the tag sls-lake and main's snapshot")
        return Came(f"{text}; others may expire its snapshots: {', '.join(set_)}", Grade.NOTE, (change,))

    def created(self) -> Came | str:
        """The new table's folder; what the catalog does to a new table by itself."""
        self._table = self._lake.create(self.name, Contract.from_columns(self._logstore.columns))
        return self._by_itself(self._table) or self._table.location()

    def _by_itself(self, table: Table) -> Came | None:
        """What the catalog does to a table by itself, None for nothing that it tells. A landing refuses that,
        so it is wrong of the logstore's own table."""
        upkeep, own = upkeep_of(table), Catalog.identifier_to_tuple(self._logstore.table)
        mine = table.name() == own
        if upkeep.untold:
            return Came(f"{table.location()}; {upkeep.untold}", Grade.NOTE)
        if not (does := upkeep.said()):
            return None
        told = f"{table.location()}; by itself the catalog {' and '.join(does).rstrip(',')}"
        when = "" if mine else ", once the first landing has made the table: it is refused until then"
        changes = (
            Do(f"turn that off{when}"),
            *upkeep.cures(Catalog.identifier_to_tuple(self._logstore.table)),
        )
        return Came(told, Grade.WRONG if mine else Grade.NOTE, changes)

    def files(self) -> Came | str:
        """A file written, read back, listed and deleted. Raises ConfigError where one of it does not hold.

        The list matters to the sweep, which deletes what no snapshot refers to: a list that lags behind by
        minutes may show a deleted file and hide a new one. So the new file must be in the very next list.
        Storage that cannot be listed is a note: landings work on it, and nothing there is ever swept.
        """
        table = self._known
        folder = f"{table.location()}/data"
        path = f"{folder}/{_PROBE}"
        with table.io.new_output(path).create() as out:
            out.write(_BYTES)
        with table.io.new_input(path).open() as back:
            if back.read() != _BYTES:
                raise ConfigError("the file that was read back has other bytes than the one that was written")
        found = listed(table.io, folder, recursive=True)
        table.io.delete(path)
        if found is None:
            change = Do(
                "set py-io-impl to pyiceberg.io.pyarrow.PyArrowFileIO: nothing is swept without a list"
            )
            return Came("put, got and deleted; this storage cannot be listed", Grade.NOTE, (change,))
        if not any(info.path.endswith(_PROBE) for info in found):
            raise ConfigError("the folder's list lacks the file that was just written: it lags behind")
        return self._room(f"{table.location()}/metadata") if is_here(table) else "all four"

    def _room(self, folder: str) -> Came | str:
        """Files of nine times as many raw bytes are what `docs/sizing.md` has measured of access logs."""
        _, _, path = PyArrowFileIO.parse_location(folder)
        free = shutil.disk_usage(path).free
        most = self._logstore.budget.bytes_max / _RAW_A_BYTE
        said = f"all four; {free / 1e9:.2f} GB are free"
        if free >= most:
            return said
        change = Do("make room; a landing that finds none ends without a row, and nothing is lost")
        return Came(
            f"{said}, and a run that reads all of `budget.bytes_max` writes about {most / 1e9:.2f}",
            Grade.NOTE,
            (change,),
        )

    def committed(self) -> str:
        """The first commit. Raises ConfigError where the table does not have it. The stale one is built here,
        too, before this one is sent: both are true of the empty table, and only one may be taken."""
        first, self._stale = self._request(), self._request()
        refusal = publish.send(self._lake.catalog(), self._known, first, deadline_s=ANSWER_S)
        self._table = table = self._lake.load(self.name)
        if table is None or table.snapshot_by_id(first.snapshot_id) is None:
            why = refusal.why if refusal else None
            raise ConfigError(
                f"the commit is not in the table: {refusal or 'and the catalog said that it is'}",
                cures=(Do(why.cure),) if why else (),
            )
        return f"taken: {len(first.requirements)} requirements, snapshot {first.snapshot_id}"

    def refused(self) -> Came | str:
        """The second one, which must not be taken."""
        stale = self._built
        refusal = publish.send(self._lake.catalog(), self._known, stale, deadline_s=ANSWER_S)
        table = self._lake.load(self.name)
        if refusal is None or table is None or table.snapshot_by_id(stale.snapshot_id) is not None:
            change = Do(
                "use another catalog: two runs at once would land the same logs, and nobody would see it"
            )
            return Came(
                "the catalog took a commit on a table that is not so any more", Grade.WRONG, (change,)
            )
        return f"refused, as it must be ({refusal.kind})"

    def dropped(self) -> str:
        """Takes all of it away. Raises ConfigError with what stays."""
        if self._table is None:
            return "there was nothing to take away"
        catalog, location, io = self._lake.catalog(), self._table.location(), self._table.io
        # With its files, where the catalog deletes them: OSS Tables does as S3 Tables, which wants that.
        self._lake.answered(lambda: catalog.purge_table(self.name))
        self._table = None
        left = emptied(io, location)
        if self._new_namespace:
            # A first landing may have made its table in it meanwhile, or another look have dropped it.
            with suppress(NamespaceNotEmptyError, NoSuchNamespaceError):
                self._lake.answered(lambda: catalog.drop_namespace(self._namespace))
        if left:
            raise ConfigError(f"{left} files stay at {location}: delete that folder")
        return "the table and its files are gone"

    @property
    def _built(self) -> publish.Request:
        """The request that was built on the empty table."""
        if self._stale is None:
            raise ConfigError(f"nothing was committed to {self.name}, so nothing is stale")
        return self._stale

    @property
    def _known(self) -> Table:
        if self._table is None:
            raise ConfigError(f"the table {self.name} is gone: somebody dropped it meanwhile")
        return self._table

    def _request(self) -> publish.Request:
        """A landing without a file, of a logstore that nobody has."""
        delta = Delta(_PROBE, live=True, change=LedgerChange(starts={0: Cursor(1)}), first=True)
        return publish.build(
            self._known,
            facts(self._known),
            delta=delta,
            ledger=merge(Ledger(_PROBE), delta).ledger,
            files=[],
            attempt=uuid.uuid4().hex,
            origin=publish.RegisteredOrigin(_PROBE, _PROBE),
            now_ms=int(self._clock.now() * 1000),
        )


def emptied(io: FileIO, folder: str) -> int:
    """Deletes the files below `folder`, a table's that was dropped; how many stay."""
    for info in listed(io, folder, recursive=True) or ():
        with suppress(OSError):  # what stays is counted below
            io.delete(f"{folder}/{info.path.rpartition(folder.rpartition('/')[2] + '/')[2]}")
    return len(listed(io, folder, recursive=True) or ())
