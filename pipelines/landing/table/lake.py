"""The catalog and the table: opened, created, and what a creation must contain.

The catalog is PyIceberg's. Any setting of PyIceberg's own configuration
(`PYICEBERG_CATALOG__LAKE__URI` and the like) wins; without one it is SQLite and a folder under the state
folder, `SLS_LAKE_HOME` or `./var`.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from urllib.parse import urlsplit

from pyiceberg.catalog import PY_CATALOG_IMPL, WAREHOUSE_LOCATION, Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
)
from pyiceberg.io import load_file_io
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import Table
from pyiceberg.utils.config import Config

from pipelines.landing.catalogs.keys import SIGNING, keys_of
from pipelines.landing.catalogs.profiles import PROFILE_PROPERTY, SIGNED, expanded
from pipelines.landing.table import commands, object_store, second_look
from pipelines.landing.table.contract import Contract, partition_spec
from pipelines.landing.table.former import Former, gone_with, look_for, lost
from pipelines.landing.table.home import CATALOG, HOME_VARIABLE, check_plain, home
from pipelines.landing.table.sql_catalog import (
    BUSY_TIMEOUT_S,
    SharingSqlCatalog,
    UnreadableMetadata,
    prepare_sqlite,
    repoint,
    server_address,
    spoilt_by,
    wait_no_longer,
)
from pipelines.landing.table.trouble import away, is_storage, storage_trouble
from sls_io.coordination.database import DRIVERS
from sls_io.values.cures import Cure, Do
from sls_io.values.deadline import Answer, NoAnswer, answered, current
from sls_io.values.errors import (
    ConfigError,
    InvariantBroken,
    LedgerBroken,
    SlsError,
    TransportError,
    printable,
)

SWEEP_FLOOR_S = 24 * 3600.0
"""No orphan younger than this is ever swept; a file older than half of it is not published."""
ANSWER_S = 60.0
"""A catalog that has not answered by then counts as one that is not there."""
_LOOKS_MAX = 3

NAMES_A_CATALOG = frozenset({"type", "uri", "py-catalog-impl"})
# The retries are for a compaction by Spark, which races with landings: our own commits are single shots, and
# read no such property.
_TABLE_PROPERTIES = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "write.target-file-size-bytes": str(128 * 1024 * 1024),
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.retry.num-retries": "10",
}


class NoMetadata(LedgerBroken):
    """The metadata file that the catalog names for a table cannot be read: nothing is known of the table.

    `whole`: the file is intact and only PyIceberg cannot follow it, so
    nothing is lost.
    """

    def __init__(self, what: str, *, cures: tuple[Cure, ...], whole: bool = False) -> None:
        super().__init__(what, cures=cures)
        self.whole = whole


def configured() -> dict[str, str]:
    """What PyIceberg's own configuration says of the catalog; nothing when it does not name it. A catalog of
    Aliyun that is named by a word is said whole. Raises ConfigError for a fact of one that cannot be meant.
    """
    return expanded({str(k): str(v) for k, v in (Config().get_catalog_config(CATALOG) or {}).items()})


@dataclass(frozen=True)
class Lake:
    """Where tables are: the catalog's properties. Holds no connection, so it may be passed around."""

    properties: Mapping[str, str]
    _looked: dict[str, Table | SlsError | None] | None = field(default=None, compare=False, repr=False)

    @staticmethod
    def default() -> "Lake":
        """From PyIceberg's configuration. Where that names no catalog, it is SQLite under the state folder,
        with the warehouse that is said, or one beside it. Raises ConfigError for a place that no address can
        name."""
        said = configured()
        check_plain(said.get("warehouse", ""), "PYICEBERG_CATALOG__LAKE__WAREHOUSE")
        if NAMES_A_CATALOG & said.keys():
            return Lake(said)
        folder = home() / "lake"
        check_plain(str(folder), HOME_VARIABLE)
        return Lake(
            {
                "type": "sql",
                "uri": f"sqlite:///{folder}/catalog.sqlite?timeout={BUSY_TIMEOUT_S}",
                "warehouse": f"file://{folder}/warehouse",
                **said,
            }
        )

    def one_look(self) -> "Lake":
        """The same catalog for one look: a table that it has found stays what it was, so all that is said of
        it is of one moment, and its metadata is read once. So does a table that is not there, and a catalog
        that did not answer. That of a look is the look itself.

        Worked example: `describe` asks for hours, errors and runway. Each loads the table; with one look all
        three are about the same snapshot, though landings go on. Of a catalog that hangs each would wait a
        minute of its own: with one look the first does, and the others say what it said.
        """
        return self if self._looked is not None else replace(self, _looked={})

    def anew(self) -> "Lake":
        """The same catalog as it is now, also for who is within one look: for a second look that may take a
        first one back."""
        return Lake(self.properties)

    @property
    def sqlite_path(self) -> Path | None:
        """The catalog's file when it is SQLite."""
        uri = self.properties.get("uri", "")
        if not uri.startswith("sqlite:///"):
            return None
        return Path(uri.removeprefix("sqlite:///").partition("?")[0])

    @property
    def kind(self) -> str:
        """`sql`, `rest`, or what else PyIceberg calls it; "" when neither type nor address tells.

        Worked example: `postgresql+psycopg2://...` and `sqlite:///...` are `sql`, `http://rest:8181` is
        `rest`; a `type` that is written decides before any address.
        """
        uri = self.properties.get("uri", "")
        families = {"http": "rest", "thrift": "hive", **dict.fromkeys(DRIVERS, "sql")}
        told = [kind for start, kind in families.items() if uri.startswith(start)]
        return self.properties.get("type", "").lower() or (told[0] if told else "")

    @property
    def place(self) -> str:
        """Which catalog it is, for people; never shows credentials."""
        path = self.sqlite_path
        if path is not None:
            return f"SQLite file {path}"
        address = self.properties.get("uri", "")
        uri = urlsplit(address)
        what = "PostgreSQL" if uri.scheme.startswith("postgresql") else f"{self.kind or 'configured'} catalog"
        try:
            where = uri.hostname, uri.port
        except ValueError:
            return what
        if address.count("@") > 1:
            return what  # what looks like a host may be the end of a password
        return f"{what} at {where[0]}{f':{where[1]}' if where[1] else ''}" if where[0] else what

    def answered(self, call: Callable[[], Answer], *, deadline_s: float = ANSWER_S) -> Answer:
        """What a call of its catalog returns or raises; NoAnswer when it takes longer. Who is told of long
        waits hears which catalog it is."""
        return answered(
            call,
            deadline_s=deadline_s,
            waits_for=f"the Iceberg catalog ({self.place}), or the storage of its tables",
        )

    def catalog(self, *, deadline_s: float = ANSWER_S) -> Catalog:
        """Open the catalog. Raises TransportError when it cannot be reached, or not within the deadline, and
        ConfigError for settings that no catalog can be opened with.

        Opened catalogs are kept by the process, four at most, so this is cheap after the first call. Only
        "already exists" is looked at again, three times in all: it is the word of a race that another process
        won.
        """
        key = tuple(sorted(self.properties.items()))
        for look in range(_LOOKS_MAX):
            try:
                return self.answered(lambda: _open(key), deadline_s=deadline_s)
            except ConfigError:
                raise
            except Exception as error:  # every catalog has its own exceptions; none of them is ours
                # Story: two processes open a new SQL catalog, both find no tables, A makes one, B is told
                # that it exists already. The next look finds it; there are two, so B may lose twice.
                if look + 1 == _LOOKS_MAX or "already exists" not in str(error):
                    raise away(self.place, error) from error
        raise InvariantBroken("the last look at the catalog neither opened it nor raised")

    def load(self, table: str, *, deadline_s: float = ANSWER_S) -> Table | None:
        """The table as it is now, or None when there is none and never was.

        Raises as `catalog` when that is not known within the deadline: no catalog, or no storage; NoMetadata
        when both are there; LedgerBroken when the catalog has lost the table.

        Before the first landing nothing is made by a look: neither a folder nor a catalog.
        """
        if self._looked is None:
            return self._found(table, deadline_s)
        if table not in self._looked:
            try:
                self._looked[table] = self._found(table, deadline_s)
            except SlsError as error:
                self._looked[table] = error
        seen = self._looked[table]
        if isinstance(seen, SlsError):
            raise seen
        return seen

    def load_anew(self, table: str) -> Table | None:
        """The same, asked once more also within one look, which goes by this answer from then on."""
        if self._looked is not None:
            self._looked.pop(table, None)
        return self.load(table)

    def _found(self, table: str, deadline_s: float) -> Table | None:
        if self._never_used():
            return None
        with current().within(deadline_s).kept():
            return self._registered_or_lost(table, deadline_s)

    def _registered_or_lost(self, table: str, deadline_s: float) -> Table | None:
        found = self._load(table, deadline_s)
        if found is not None:
            return found
        former = self.former(table, deadline_s=deadline_s)
        # Story: two first runs, B finds no table, A makes it and lands, B finds A's files. The table
        # was in the catalog before any of them was, so whoever has found files looks there again.
        if former is None or (found := self._load(table, deadline_s)) is not None:
            return found
        raise lost(self.place, table, former)

    def former(self, table: str, *, deadline_s: float = ANSWER_S) -> Former | None:
        """What the storage says of a table that is not in the catalog. Raises as `catalog`."""
        catalog = self.catalog(deadline_s=deadline_s)
        try:
            return self.answered(lambda: look_for(catalog, table), deadline_s=deadline_s)
        except Exception as error:
            raise _failed(self, error) from error

    def _load(self, table: str, deadline_s: float) -> Table | None:
        """A metadata file that cannot be read is asked for twice: an answer may be broken on its way, and
        what is said of such a file ends in giving the table up."""
        catalog = self.catalog(deadline_s=deadline_s)
        for again in (False, True):
            try:
                return self.answered(lambda: catalog.load_table(table), deadline_s=deadline_s)
            except (NoSuchTableError, NoSuchNamespaceError):
                return None
            except Exception as error:
                if again or not isinstance(error, UnreadableMetadata) or is_storage(error.cause):
                    raise _failed(self, error) from error
        raise InvariantBroken("the second load of a table neither found it nor raised")

    def _never_used(self) -> bool:
        """Whether neither catalog nor warehouse has a folder yet: whoever only looks must not make one."""
        path, files = self.sqlite_path, self.properties.get("warehouse", "").removeprefix("file://")
        return path is not None and not path.parent.exists() and Path(files).is_relative_to(path.parent)

    def ensure(self, table: str, contract: Contract) -> Table:
        """The table, created empty when nothing says that there was one. Raises as `load`."""
        return self.load(table) or self.create(table, contract)

    def create(self, table: str, contract: Contract, *, location: str | None = None) -> Table:
        """A new table (format version 2), or the one that another process made meanwhile.

        Of two that make it at once one is told that it is there, and takes the other's: a table is made once,
        so both land in the same one.
        """
        made = self.create_new(table, contract, location=location)
        if made is None and (made := self._load(table, ANSWER_S)) is None:
            raise _pointless(self, table)
        return made

    def create_new(self, table: str, contract: Contract, *, location: str | None = None) -> Table | None:
        """The same; None where there is a table of this name by now.

        Story: a first run finds the namespace that a look of doctor has made for its trial, doctor takes it
        away again, and there is none for the table. So it is made once more; others may take it twice.
        """
        for _ in range(_LOOKS_MAX):
            self.ensure_namespace(table)
            with suppress(NoSuchNamespaceError):
                return self._created(table, contract, location)
        raise ConfigError(
            f"the namespace of table {table} was taken away {_LOOKS_MAX} times while the table was made in "
            f"the Iceberg catalog ({self.place}); run it again"
        )

    def _created(self, table: str, contract: Contract, location: str | None) -> Table | None:
        catalog, schema = self.catalog(), contract.iceberg_schema()
        try:
            return self.answered(
                lambda: catalog.create_table(
                    table,
                    schema,
                    location=location,
                    partition_spec=partition_spec(schema),
                    properties=_TABLE_PROPERTIES,
                )
            )
        except TableAlreadyExistsError:
            return None
        except (OSError, NoAnswer, RESTError, UnreadableMetadata) as error:
            raise _failed(self, error) from error
        except ValueError as error:
            if WAREHOUSE_LOCATION in catalog.properties:
                raise
            raise ConfigError(
                f"the Iceberg catalog ({self.place}) is told of no folder for its tables: set "
                "PYICEBERG_CATALOG__LAKE__WAREHOUSE to one"
            ) from error

    def create_instead(
        self, table: str, contract: Contract, catalog: SqlCatalog, *, location: str, named: str | None
    ) -> bool:
        """A new table under the row of one whose metadata is gone; False when the row does not name `named`
        any more. Raises as the catalog and the storage do.

        The row is changed in one statement and never dropped: in between a run would find no table.

        The metadata of the new table is written first, where nobody looks yet; then one statement points the
        row to it, if it still names what was seen: of two that do this one wins, and the other's file is left
        over.
        """
        schema = contract.iceberg_schema()
        staged = catalog.create_table_transaction(
            table,
            schema,
            location=location,
            partition_spec=partition_spec(schema),
            properties=_TABLE_PROPERTIES,
        )._table
        ToOutputFile.table_metadata(staged.metadata, staged.io.new_output(staged.metadata_location))
        return repoint(catalog, table, named, staged.metadata_location)

    def ensure_namespace(self, table: str) -> None:
        """Make the namespace of `table` where it is not there.

        Story: two first runs find no namespace, A makes it, B's insert meets the database's own unique
        key. B gets the driver's error, not PyIceberg's "already exists", so only a look decides.
        """
        catalog, name = self.catalog(), table.split(".", maxsplit=1)[0]
        try:
            self.answered(lambda: catalog.create_namespace(name))
        except NamespaceAlreadyExistsError:
            return
        except Exception as error:
            with suppress(Exception):  # the first error says what is wrong
                if not isinstance(error, NoAnswer) and self.answered(lambda: catalog.namespace_exists(name)):
                    return
            raise away(self.place, error) from error


def _pointless(lake: Lake, table: str) -> NoMetadata:
    told = f"the catalog's row of table {printable(table)} names no metadata file"
    return NoMetadata(told, cures=_ways(lake, table))


def _ways(lake: Lake, table: str, location: str = "") -> tuple[Cure, ...]:
    """What can be done when the metadata that the catalog names cannot be restored.

    A look for older states, which may fail itself: then only the look is offered.
    """
    try:
        catalog = lake.catalog()
        former = lake.answered(lambda: look_for(catalog, table, location))
    except Exception:  # what failed is said already, this is about what else there is
        return (commands.REGISTER_LOOK,)
    if former is None:
        return (commands.START_OVER.plus(does="gives the table up: no older state of it is there"),)
    if not former.registrable:
        # A storage that cuts each answer off looks just so, and is well a minute later.
        whole = Do(f"look whether the storage answers whole, and run it again: {'; '.join(former.found)}")
        return whole, commands.START_OVER.plus(does="gives the table up: no older state of it can be read")
    if location:
        # An older state has to be named, so that nobody takes it for the newest; only the verb knows which.
        return (commands.REGISTER_LOOK, commands.START_OVER)
    return (commands.REGISTER.plus(does="puts the newest back that is there"), commands.START_OVER)


def _failed(lake: Lake, error: Exception) -> SlsError:
    """The error for a failed call: the catalog did not answer, or the files failed that a SQL catalog leaves
    to its clients.

    The HTTP client's errors are OSErrors, too.

    Which part failed: SQLite's file, the metadata that the row names, the catalog, or the storage.
    """
    cause = error.cause if isinstance(error, UnreadableMetadata) else error
    if isinstance(cause, ConfigError):
        return cause
    if (spoilt := spoilt_by(lake.sqlite_path, error)) is not None:
        return spoilt
    if isinstance(error, UnreadableMetadata) and not is_storage(error.cause):
        return _no_metadata(lake, error)
    if not isinstance(cause, OSError) or type(cause).__module__.startswith("requests"):
        return away(lake.place, cause)
    warehouse = lake.properties.get("warehouse", "the warehouse")
    # A catalog of Aliyun has a name where others have a place.
    place = f"oss, of {warehouse}" if PROFILE_PROPERTY in lake.properties else warehouse
    return TransportError(storage_trouble(place, cause))


def _no_metadata(lake: Lake, error: UnreadableMetadata) -> NoMetadata:
    """In the order of what a person can do: the file is gone (and perhaps the whole warehouse is not where it
    was), it is spoilt, or it is whole and PyIceberg cannot follow it, which nothing is to be given up for."""
    if not error.file:
        return _pointless(lake, error.table)
    told = f"the catalog's metadata file {printable(error.file)} of table {printable(error.table)}"
    wrong, more = "", ""
    try:
        io = load_file_io(dict(lake.properties), error.location)
        if isinstance(error.cause, FileNotFoundError):
            more = gone_with(io, error.location, lake.properties.get("warehouse", ""))
        else:
            wrong = second_look.metadata(io, error.location)
    except Exception as again:  # it was there a moment ago
        wrong = type(again).__name__
    ways = (Do("restore it"), *_ways(lake, error.table, error.location))
    if isinstance(error.cause, FileNotFoundError):
        hint = f", and with it {printable(more)}: is the warehouse where it was?" if more else ""
        return NoMetadata(f"{told} is gone{hint}", cures=ways)
    if wrong:
        return NoMetadata(f"{told} was cut off or overwritten ({wrong})", cures=ways)
    return NoMetadata(
        f"{told} is whole, but PyIceberg cannot follow what it says ({type(error.cause).__name__}): a "
        "later release of Iceberg wrote it, or somebody by hand. Nothing is lost",
        cures=(Do("take that change back, or upgrade sls-lake"),),
        whole=True,
    )


_Properties = tuple[tuple[str, str], ...]
_CATALOGS_MAX = 4
_catalogs: OrderedDict[_Properties, Catalog] = OrderedDict()
_catalogs_lock = threading.Lock()


def _open(properties: _Properties) -> Catalog:
    """One catalog client a process and address: each has a pool of connections of its own.

    The one unused for longest is closed when there are too many, so that a process that visits many
    lakes does not keep the files of all of them open. A client that somebody still holds goes on
    working: closing lets go of its idle connections, the next call opens one.

    Two threads may open the same one at once: the first that is put there stays, and the other is closed.
    """
    with _catalogs_lock:
        if properties in _catalogs:
            _catalogs.move_to_end(properties)
            return _catalogs[properties]
    lake = Lake(dict(properties))
    object_store.completed(lake.properties)
    keys_of(lake.properties)
    if lake.sqlite_path is not None:
        prepare_sqlite(lake.sqlite_path)
    settings = dict(lake.properties)
    if lake.kind == "sql" and lake.sqlite_path is None:
        settings = {"pool_pre_ping": "true", **settings, "uri": server_address(settings.get("uri", ""))}
    opened = _client(lake.kind, settings)
    if lake.sqlite_path is not None and isinstance(opened, SqlCatalog):
        wait_no_longer(opened)
    with _catalogs_lock:
        catalog = _catalogs.setdefault(properties, opened)
        unused = [] if catalog is opened else [opened]
        unused += [_catalogs.popitem(last=False)[1] for _ in range(len(_catalogs) - _CATALOGS_MAX)]
    for each in unused:
        each.close()
    return catalog


def _client(kind: str, settings: Mapping[str, str]) -> Catalog:
    """A client of its own: one of ours where PyIceberg's would not do."""
    every = {**configured(), **settings}
    if kind == "sql" and PY_CATALOG_IMPL not in every:
        return SharingSqlCatalog(CATALOG, **every)
    if kind == "rest" and every.get(SIGNED, "").lower() == "true":
        signing: Catalog = import_module(SIGNING).SigningCatalog(CATALOG, **every)
        return signing
    return load_catalog(CATALOG, **settings)
