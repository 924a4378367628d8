"""One try of a landing: built as data from a table state, then sent once.

    append the files + windows and ledger in the summary + move the tag + set what first start needs
    required: table uuid, main at the state's head, tag at its snapshot, schema id, spec id

`build` writes manifests (files nobody sees) and returns updates and requirements; `send` is a single
shot under a deadline. Any answer but "accepted" means unknown: the caller reloads the table
(`lost_answer.py`). Checkpoints are published after it, by `run/holding.py`.

PyIceberg's public transaction is not used: it de-duplicates requirements by type, so the second
AssertRefSnapshotId would be dropped in silence, and its retry loses the tag. `_commit` of a snapshot
producer is private; the version is pinned and a test asserts every requirement of a request.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import BadRequestError
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    update_table_metadata,
)

from pipelines.landing.ledger import codec
from pipelines.landing.ledger.reading import check_kept, manifests_of
from pipelines.landing.ledger.state import TableState
from pipelines.landing.ledger.values import Adopted, Delta, Forgotten
from pipelines.landing.table.trouble import NotTaken, is_storage, not_taken, storage_trouble
from sls_io.values.claim import Ledger
from sls_io.values.deadline import NoAnswer, answered
from sls_io.values.errors import TransportError

REF_AGE_MS_MAX = 2**63 - 1
"""The tag carries its own age: table properties would let an expiry delete it."""


@dataclass(frozen=True)
class Request:
    """Everything one try sends; `snapshot_id` is how it is recognised in the table later."""

    snapshot_id: int
    updates: tuple[TableUpdate, ...]
    requirements: tuple[TableRequirement, ...]


@dataclass(frozen=True)
class RegisteredOrigin:
    """What a landing writes about where its rows came from: id and the readable identity."""

    id: str
    text: str


class Unchanging(Transaction):
    """A transaction that only lends its table to a snapshot producer, whose updates we send ourselves.

    PyIceberg's own works its pending updates into a deep copy of all metadata whenever it is asked for
    them, a dozen times a commit; here none are ever pending. At 200 snapshots that was most of a publish.
    """

    @property
    def table_metadata(self) -> TableMetadata:
        return self._table.metadata


def build(
    table: Table,
    state: TableState,
    *,
    delta: Delta,
    ledger: Ledger,
    files: Sequence[DataFile],
    attempt: str,
    origin: RegisteredOrigin,
    now_ms: int,
    schema: Schema | None = None,
    properties: Mapping[str, str] | None = None,
) -> Request:
    """A try on exactly `state`. `schema` is the evolved schema the files were written with, if any;
    `properties` of the table are set in the same commit.

    Raises TransportError when its manifests cannot be written, or a maintenance has taken those of `state`
    (`check_kept`), and as `reading.py` does.

    `snapshot_id` is drawn anew each time, so each try of an attempt has its own. Whoever was told nothing
    looks for all of them in main's ancestry.
    """
    evolved = schema_updates(table.metadata, schema)
    staged = _staged(table, evolved)
    producer = (
        Unchanging(staged)
        .update_snapshot(snapshot_properties=_summary(state, delta, ledger, attempt))
        .fast_append()
    )
    for file in files:
        # A DataFile that was pickled, as a task's is on its way here, has lost it.
        file.spec_id = state.spec_id
        producer.append_data_file(file)
    try:
        updates, requirements = producer._commit()
    except Exception as error:
        if not isinstance(error, OSError) or isinstance(error, FileNotFoundError):
            # The new manifest list begins with those of the head, and PyIceberg's error names no file.
            check_kept(table)
            manifests_of(table, table.current_snapshot())
        if not isinstance(error, OSError):
            raise
        # A full disk, say. This try was never sent, so there is nothing to ask the table about.
        raise TransportError(
            f"the manifests of a landing were not written: {storage_trouble(table.location(), error)}; "
            "nothing was sent, run again"
        ) from error
    return Request(
        snapshot_id=producer.snapshot_id,
        updates=(
            *evolved,
            *_clamped(updates, state, now_ms),
            tag_moved(producer.snapshot_id),
            *origin_registered(state, origin),
            *properties_set(properties or {}),
        ),
        requirements=fence(table, state, requirements),
    )


def fence(table: Table, state: TableState, main: Sequence[TableRequirement]) -> tuple[TableRequirement, ...]:
    """What must still be so when the commit arrives: `state`, and `main` as these requirements say.

    The uuid: not a table that was made anew under the name. Main: the ledger was computed on this head, and
    no row was added to it since. The tag: nobody moved it. Schema and spec: files carry field ids of the one
    and lie in partitions of the other.
    """
    tag: tuple[TableRequirement, ...] = ()
    # PyIceberg refuses to check any other ref of a table without snapshots; that main has none is required
    # then.
    if state.head is not None:
        tag = (AssertRefSnapshotId(ref=codec.TAG, snapshot_id=state.tagged),)
    return (
        AssertTableUUID(uuid=table.metadata.table_uuid),
        *main,
        *tag,
        AssertCurrentSchemaId(current_schema_id=state.schema_id),
        AssertDefaultSpecId(default_spec_id=state.spec_id),
    )


def schema_updates(metadata: TableMetadata, schema: Schema | None) -> tuple[TableUpdate, ...]:
    """The evolved schema as the table's current one; nothing when it does not change.

    One that the table has goes by its id: a REST server would not add it again under another, and the
    snapshot would name a schema that is not there.
    """
    if schema is None:
        return ()
    if any(known.schema_id == schema.schema_id for known in metadata.schemas):
        return (SetCurrentSchemaUpdate(schema_id=schema.schema_id),)
    # -1 is the one that was added last in this very request, whatever id the catalog gives it.
    return AddSchemaUpdate(schema_=schema), SetCurrentSchemaUpdate(schema_id=-1)


def tag_moved(snapshot_id: int) -> TableUpdate:
    """The tag on `snapshot_id`, for ever."""
    return SetSnapshotRefUpdate(
        ref_name=codec.TAG,
        type="tag",
        snapshot_id=snapshot_id,
        max_ref_age_ms=REF_AGE_MS_MAX,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )


def origin_registered(state: TableState, origin: RegisteredOrigin) -> tuple[TableUpdate, ...]:
    """The origin as a table property, unless it is there with this text already."""
    if state.origins.get(origin.id) == origin.text:
        return ()
    return (SetPropertiesUpdate(updates={codec.ORIGIN_PROPERTY_PREFIX + origin.id: origin.text}),)


def paused(shards: Mapping[str, frozenset[int]]) -> tuple[TableUpdate, ...]:
    """The paused shards of these origins as table properties."""
    texts = {
        codec.PAUSED_PROPERTY_PREFIX + name: codec.encode_paused(found) for name, found in shards.items()
    }
    return properties_set(texts)


def properties_set(texts: Mapping[str, str]) -> tuple[TableUpdate, ...]:
    """These table properties; nothing for none."""
    return (SetPropertiesUpdate(updates=dict(texts)),) if texts else ()


DEADLINE = "deadline"
"""Kind of a try that nobody answered in time."""


@dataclass(frozen=True)
class Refusal:
    """A try that was not accepted: the kind of the error, and why it was not taken where that is known.

    The try may have landed all the same: only the table tells.

    A kind for code and a reason for people. Neither says whether the try landed: an error may be raised after
    the catalog has done it.
    """

    kind: str
    why: NotTaken | None = None

    def __str__(self) -> str:
        return f"{self.kind}: {self.why}" if self.why else self.kind


def send(catalog: Catalog, table: Table, request: Request, *, deadline_s: float) -> Refusal | None:
    """Send the try, once. None when it was accepted.

    A call that outlives the deadline is left behind on its thread: it may still land, which is what
    "unknown" means, and the reload will tell.

    Story: our clock is ten minutes ahead. A database takes the commit; a REST server writes its own time
    beside the snapshot's, finds the snapshot younger than that and answers 400, every time. So the same
    request goes out again with a time that the table itself has proved to have passed.
    """
    answer = _answer(catalog, table, request, deadline_s)
    bad_request = answer is not None and answer.kind == BadRequestError.__name__
    if bad_request and (earlier := _earlier(table, request)) != request:
        return _answer(catalog, table, earlier, deadline_s)
    return answer


def _answer(catalog: Catalog, table: Table, request: Request, deadline_s: float) -> Refusal | None:
    try:
        answered(
            lambda: catalog.commit_table(table, request.requirements, request.updates),
            deadline_s=deadline_s,
            waits_for="the Iceberg catalog, which takes the commit, or the storage of its tables",
        )
    except NoAnswer:
        return Refusal(DEADLINE)
    except Exception as error:  # a refusal, a lost answer, a driver's error: all mean "ask the table"
        return Refusal(type(error).__name__, not_taken(error) or _of_storage(table, error))
    return None


def _of_storage(table: Table, error: Exception) -> NotTaken | None:
    """Where a catalog leaves the metadata file to its clients, and the storage did not take it."""
    if not is_storage(error):
        return None
    cure = "look at the storage; the next run goes on from what the table has"
    return NotTaken(storage_trouble(table.location(), error), cure, passes=True)


def _earlier(table: Table, request: Request) -> Request:
    """The request with its snapshot a millisecond younger than the table, whatever our clock says."""
    return replace(request, updates=tuple(_timed(request.updates, table.metadata.last_updated_ms + 1)))


def _staged(table: Table, updates: tuple[TableUpdate, ...]) -> Table:
    """The table as it will be after `updates`, so that manifests carry the schema of the files."""
    if not updates:
        return table
    metadata = update_table_metadata(table.metadata, updates)
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)


def _summary(state: TableState, delta: Delta, ledger: Ledger, attempt: str) -> dict[str, str]:
    forgotten = state.forgotten.landed(delta.origin, delta.windows)
    return {
        codec.ATTEMPT_KEY: attempt,
        codec.WINDOWS_KEY: codec.encode_windows(delta.origin, delta.windows),
        **carried({**state.ledgers, ledger.origin: ledger}, state.adopted, forgotten),
    }


def carried(ledgers: Mapping[str, Ledger], adopted: Adopted, forgotten: Forgotten) -> dict[str, str]:
    """What every snapshot under the tag says: all ledgers, what was adopted, what was forgotten."""
    beside = {
        codec.ADOPTED_KEY: codec.encode_adopted(adopted),
        codec.FORGOTTEN_KEY: codec.encode_forgotten(forgotten),
    }
    return {
        **{name: text for name, text in beside.items() if text},
        **{codec.LEDGER_PREFIX + name: codec.encode(entry) for name, entry in ledgers.items()},
    }


def _clamped(updates: tuple[TableUpdate, ...], state: TableState, now_ms: int) -> list[TableUpdate]:
    """Younger than whatever the table names: Spark refuses a table whose snapshot log goes back.

    Story: a clock ten minutes ahead lands, the next run's clock is right. With the very time of the last
    update PyIceberg takes the update for one without a time and writes its own clock's, ten minutes before
    the newest snapshot, and Spark refuses the table. So it is a millisecond later.

    Worked example: the table was updated at 1600. By a clock at 1000 the snapshot gets 1601, by one at 2000
    it gets 2000.
    """
    return _timed(updates, max(now_ms, state.last_updated_ms + 1))


def _timed(updates: Iterable[TableUpdate], at_ms: int) -> list[TableUpdate]:
    return [
        AddSnapshotUpdate(snapshot=u.snapshot.model_copy(update={"timestamp_ms": at_ms}))
        if isinstance(u, AddSnapshotUpdate)
        else u
        for u in updates
    ]
