"""Whether a table can be landed in at all, asked before any work and by whoever looks at it.

Other engines may change anything of a table: its format, the names of our columns, its properties. PyIceberg
would fail on such a change in the middle of a landing, after the pages were pulled. The check here comes
first, and its error carries what takes the change back. Files and ledgers are checked elsewhere.
"""

from pyiceberg.avro.codecs import CODEC_MAPPING_ICEBERG_TO_AVRO, KNOWN_CODECS
from pyiceberg.io.pyarrow import compute_statistics_plan
from pyiceberg.table import Table

from pipelines.landing.catalogs.upkeep import CatalogUpkeep, KeepsTables
from pipelines.landing.table import commands
from pipelines.landing.table.contract import (
    SYSTEM_COLUMNS,
    Held,
    displaced,
    hour_place,
    lacking_column,
    origin_place,
)
from sls_io.values.cures import Do
from sls_io.values.deadline import answered
from sls_io.values.errors import LedgerBroken, printable

FORMAT = 2
_ASKED_S = 60.0
_CODEC = "write.avro.compression-codec"
_METRICS = "write.metadata.metrics."
_MAPPING = "schema.name-mapping.default"
_PROVIDER = "write.py-location-provider.impl"
_METADATA_PATH = "write.metadata.path"
# PyIceberg reads these at a commit, as numbers: another text is a ValueError in the middle of one.
_NUMBERS = ("write.metadata.previous-versions-max", "write.summary.partition-limit")
_FLAGS = (
    "write.metadata.delete-after-commit.enabled",
    "write.object-storage.enabled",
    "write.object-storage.partitioned-paths",
)


def check_usable(table: Table, held: Held, *, columns: bool = True) -> None:
    """Raises LedgerBroken, with what settles it, for a table that no landing could be written to.

    `held`: the columns as landings had them. `columns`: False for who changes the columns, and so the
    partitioning, which rests on them.

    In the order in which one hides the next: under another format version nothing else is to be trusted; a
    partitioning rests on columns, so columns come first; what the catalog does is asked last, since it is the
    one question that leaves this process.

    Worked example: somebody sets 'write.metadata.metrics.default' to `everything`. Each landing would pull
    its pages and fail when the first file is closed. Here it is refused before a page is pulled, with the
    ALTER TABLE that unsets it.
    """
    name = ".".join(table.name())
    version = table.metadata.format_version
    if version != FORMAT:
        raise LedgerBroken(
            f"table {name} has format version {version}, and only version {FORMAT} can be written; nothing "
            "was changed",
            cures=(Do(_older(name) if version < FORMAT else _newer(name)),),
        )
    if columns:
        _check_columns(table, name, held)
        _check_partitioning(table, name)
    _check_properties(table, name)
    _check_places(table, name)
    _check_upkeep(table, name)


def upkeep_of(table: Table) -> CatalogUpkeep:
    """What the table's catalog does to it by itself. Raises as the catalog does.

    A catalog of which nothing is known does nothing by itself: only those that say so (`KeepsTables`) are
    asked, within 60 s.
    """
    catalog = table.catalog
    if not isinstance(catalog, KeepsTables):
        return CatalogUpkeep()
    return answered(
        lambda: catalog.upkeep(table.name()), deadline_s=_ASKED_S, waits_for="the Iceberg catalog"
    )


def _older(name: str) -> str:
    return f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('format-version'='{FORMAT}') in Spark"


def _newer(name: str) -> str:
    return (
        "no version is ever taken back; give the logstore another `table` in its settings and land there: it "
        f"gets all that the service still has, {name} keeps what it has and can be read beside it. If "
        "nothing was written since, the catalog may be put back on the metadata file of before"
    )


def _check_columns(table: Table, name: str, held: Held) -> None:
    """Our columns are there under their names and ids, and nobody else's is required."""
    schema = table.schema()
    lacking = lacking_column(schema, held)
    if lacking is None:
        required = [f.name for f in schema.fields if f.required and f.name not in SYSTEM_COLUMNS]
        if not required:
            return
        column = printable(required[0])
        raise LedgerBroken(
            f"the column {column!r} of table {name} is required, and logs cannot promise it; nothing was "
            "changed",
            cures=(Do(f"ALTER TABLE lake.{name} ALTER COLUMN `{column}` DROP NOT NULL in Spark"),),
        )
    if lacking not in held:
        raise LedgerBroken(
            f"table {name} has no column {lacking!r} of the type that sls-lake writes, and no landing had it",
            cures=(Do("name another `table` in the logstore's settings"),),
        )
    what = displaced(schema, held, lacking) or "was given another type"
    raise LedgerBroken(
        f"the column {lacking!r} of table {name} {what}; files still have its values, nothing was changed",
        cures=(commands.RESTORE,),
    )


def _check_partitioning(table: Table, name: str) -> None:
    """Partitions must say the logstore and the receive hour of a file; more fields do no harm.

    Story: somebody drops the hour, landings go on, a compaction by another engine writes files of many hours
    in one. None of these hours can be taken back or landed again any more, since whole files leave.
    """
    spec, schema = table.spec(), table.schema()
    lacking = [
        field
        for field, place in (("__origin__", origin_place), ("hours(__receive_hour__)", hour_place))
        if place(spec, schema) is None
    ]
    if lacking:
        raise LedgerBroken(
            f"table {name} is not partitioned by {' and '.join(lacking)} any more, and without that no "
            "hour could be taken back or landed again; nothing was changed",
            cures=tuple(
                Do(f"ALTER TABLE lake.{name} ADD PARTITION FIELD {field} in Spark") for field in lacking
            ),
        )


def _check_places(table: Table, name: str) -> None:
    """What is written lies in the table's own folder, where a lost table is looked for and a sweep looks.

    Story: metadata goes to another folder. When the catalog loses the table, nothing in its folder says that
    there was one, and a backup of the catalog cannot be told from its newest state.
    """
    there = table.metadata.properties.get(_METADATA_PATH)
    if there and there.rstrip("/") != f"{table.location().rstrip('/')}/metadata":
        raise LedgerBroken(
            f"the property {_METADATA_PATH!r} lets metadata of table {name} be written outside of its own "
            "folder, where nobody would find it when the catalog loses the table, or is put back; nothing "
            "was changed",
            cures=(
                Do(
                    f"ALTER TABLE lake.{name} UNSET TBLPROPERTIES ('{_METADATA_PATH}') in Spark, and take it "
                    "out of the catalog's settings where those give it"
                ),
            ),
        )


def _check_upkeep(table: Table, name: str) -> None:
    """The catalog leaves snapshots and files to us.

    Story: no log comes for five days, the catalog compacts the table and expires all but that snapshot. The
    newest landing's goes, and with it ledger and tag: landings stop until `table adopt` finds a ledger that
    the rows prove. A compaction of its own counts no hour as sealed, and writes anew what ours just wrote.
    """
    upkeep = upkeep_of(table)
    if does := upkeep.said():
        raise LedgerBroken(
            f"the catalog of table {name} {' and '.join(does)} by itself: the ledger's snapshot or its tag "
            "may be among what it expires, and `table maintain` does both with care for them; nothing was "
            "changed",
            cures=upkeep.cures(table.name()),
        )


def _check_properties(table: Table, name: str) -> None:
    """The properties that PyIceberg reads when it reads and writes have values that it can follow.

    Asked of PyIceberg itself where it can be: what it refuses here it would refuse in the middle of a commit.
    """
    properties = table.metadata.properties
    codec = properties.get(_CODEC)
    if codec is not None and CODEC_MAPPING_ICEBERG_TO_AVRO.get(codec, codec) not in KNOWN_CODECS:
        raise _unset(name, _CODEC, f"knows {', '.join(sorted(KNOWN_CODECS))}, gzip and zstd")
    for number in _NUMBERS:
        if not properties.get(number, "0").lstrip("-").isdecimal():
            raise _unset(name, number, "needs a whole number")
    for flag in _FLAGS:
        if properties.get(flag, "true").lower() not in ("true", "false"):
            raise _unset(name, flag, "needs true or false")
    try:
        compute_statistics_plan(table.schema(), dict(properties))
    except ValueError:
        wrong = next((key for key in sorted(properties) if key.startswith(_METRICS)), f"{_METRICS}default")
        raise _unset(name, wrong, "knows none, counts, full and truncate(N)") from None
    for wrong, ask in ((_MAPPING, table.name_mapping), (_PROVIDER, table.location_provider)):
        try:
            ask()
        except ValueError:
            raise _unset(name, wrong, "cannot read it" if wrong == _MAPPING else "cannot load it") from None


def _unset(name: str, wrong: str, why: str) -> LedgerBroken:
    return LedgerBroken(
        f"the property {wrong!r} of table {name} has a value that PyIceberg cannot follow: it {why}; nothing "
        "was changed",
        cures=(
            Do(f"ALTER TABLE lake.{name} UNSET TBLPROPERTIES ('{wrong}') in Spark"),
            Do("set it to another value"),
        ),
    )
