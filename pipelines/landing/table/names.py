"""What a declared key may be called, asked when a logstore's settings are read, before anything runs;
and which keys may not land as they are sent, asked of the table at each commit.

A name that is refused here costs a line in a settings file. One that got through would be a column of the
table for good, since a column is never taken out. Story: a key `_file` is declared, the first landing adds
the column, and Spark reads the table no more.

Worked example: `Status` beside `status` is refused, as is `_FILE`, `__x` (the system's), `9a` and `a b`;
`a.b-c` is a column. What is refused is not lost: a key without a column is in `__rest__`.
"""

import re
from collections.abc import Collection, Iterable, Mapping

from pipelines.landing.table import commands
from sls_io.values.cures import Do
from sls_io.values.errors import ConfigError, printable

RESERVED = frozenset(
    (
        "_file",
        "_pos",
        "_deleted",
        "_spec_id",
        "_partition",
        "_change_type",
        "_change_ordinal",
        "_commit_snapshot_id",
        "_row_id",
        "_last_updated_sequence_number",
    )
)
"""Names of Iceberg's metadata columns (`org.apache.iceberg.MetadataColumns`). Spark reads no table with
a column of such a name, or makes no changelog of it. Their case does not count, since it tells none apart."""

PROTECTED_PROPERTY_PREFIX = "sls-lake.protected."
"""Of a table property, before `project/logstore`: the keys of that logstore whose values may not land as they
are sent, as names and blanks. It is no part of a ledger: a rollback to a landing from before such a
declaration does not end it, and neither does a logstore that is made again."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,254}")
_REST = "__rest__"


class WrongColumn(ConfigError):
    """A declared key cannot be a column as it is declared; `key` is the one, `why` says it in a sentence."""

    def __init__(self, why: str, key: str, place: str = "columns") -> None:
        super().__init__(f"{place}: {why}")
        self.key, self.why = key, why


def check_names(names: Iterable[str]) -> None:
    """Raises WrongColumn, with the cure, for a key that cannot have a column of its name.

    In the order of the settings, so the first one that is wrong is named, and of two that differ in case the
    second.
    """
    seen: dict[str, str] = {}
    for name in names:
        _check(name)
        twin = seen.setdefault(name.lower(), name)
        if twin != name:
            raise WrongColumn(
                f"{twin!r} and {name!r} differ only in case, which SQL does not tell apart; "
                f"leave one out, its values are then in {_REST}",
                name,
            )


def _check(name: str) -> None:
    if name.lower() in RESERVED:
        raise WrongColumn(
            f"{name!r} is a metadata column of Iceberg's, and Spark cannot read a column of that "
            f"name beside it; leave it out, its values are then in {_REST} (reserved: "
            f"{', '.join(sorted(RESERVED))})",
            name,
        )
    if name.startswith("__"):
        raise WrongColumn(f"{printable(name)!r} begins with '__', which is the system's; leave it out", name)
    if not _NAME.fullmatch(name):
        raise WrongColumn(
            f"{printable(name)!r} cannot be a column name (ASCII letters, digits, '_', '.', '-', at "
            f"most 255, not beginning with a digit); leave it out, its values are then in {_REST}",
            name,
        )


def protected_keys(properties: Mapping[str, str], logstore: str) -> frozenset[str]:
    """The keys that settings of `project/logstore` had as `drop` or `hash` when rows of it were committed."""
    return frozenset(properties.get(f"{PROTECTED_PROPERTY_PREFIX}{logstore}", "").split())


def protection(properties: Mapping[str, str], logstore: str, protects: Collection[str]) -> dict[str, str]:
    """What a commit of rows of `project/logstore`, whose settings protect these keys, has to set of the
    table; {}: nothing.

    Story: `user` is declared `hash`, and the plain values are taken out of all rows. A deployment that still
    has the settings of before lands an hour later, or a run that had begun before. Without a word in the
    table plain values would be there again, and nobody would look. So a table that says more than the
    settings do takes no row. Raises ConfigError then.

    Worked example: the table says `user`, the settings protect `user` and `phone`: it will say both. With
    settings that have `user: string`, or do not name it, nothing lands.
    """
    has, wanted = protected_keys(properties, logstore), frozenset(protects)
    if plain := sorted(has - wanted):
        named = ", ".join(repr(printable(name)) for name in plain)
        raise ConfigError(
            f"values of {named} may not land as they are sent: its table had settings that say drop or hash, "
            "and these do not; nothing was changed",
            cures=(Do("declare them drop or hash"), commands.plain(*plain)),
        )
    return {} if wanted <= has else {f"{PROTECTED_PROPERTY_PREFIX}{logstore}": " ".join(sorted(wanted))}


def unprotected(properties: Mapping[str, str], logstore: str, plain: Collection[str]) -> dict[str, str]:
    """What to set of a table so that values of these keys may land as they are sent; {}: nothing. Raises
    ConfigError for a key that is not protected."""
    has, free = protected_keys(properties, logstore), frozenset(plain)
    if strange := sorted(free - has):
        known = ", ".join(sorted(has)) or "none"
        raise ConfigError(f"the table has no key {printable(strange[0])!r} as drop or hash; it has {known}")
    return {f"{PROTECTED_PROPERTY_PREFIX}{logstore}": " ".join(sorted(has - free))} if free else {}
