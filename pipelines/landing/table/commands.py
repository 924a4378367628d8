"""The commands of ours that errors name, each made here, and how cures are shown to people and programs.

A command runs as it is printed: it gets the program, the logstore where one is to be named, and `--execute`
where it is harmless. What is done by hand stands as it is. A test parses every command of this module with
the command line's own options.
"""

import shlex
from collections.abc import Iterable

from sls_io.values.cures import Call, Cure, Do

PROGRAM = "sls-lake"
OF_NO_LOGSTORE = frozenset({"check", "dbt", "demo", "dev", "emulator", "init", "new"})
"""First words of the commands that are about no logstore, or about several."""

_LOOKS = "looks for what brings rows back, and names it"
VERIFY = Call(("verify",), does=_LOOKS)
VERIFY_ROWS = VERIFY.plus("--rows")
VERIFY_PULL = VERIFY.plus("--pull", does="names the hours that can be replaced")
DESCRIBE = Call(("describe",))
LAND = Call(("land",))
DRY_RUN = LAND.plus("--dry-run", does="says why a shard waits")
OWED = DRY_RUN.plus(does="names the backfill that lands what was skipped")
BACKFILL = Call(("backfill", "--local"))
PUBLISH = Call(("checkpoints", "set", "--from", "ledger", "--to", "group", "--forward-only"), harmless=True)
REPLACE = Call(("backfill", "--mode", "replace", "--local"), harmless=True)
ERRORS = Call(("backfill", "--mode", "errors", "--local"), harmless=True)
START_OVER = Call(("table", "start-over"), does="gives the old table up")
REGISTER = Call(("table", "register"), harmless=True)
REGISTER_LOOK = Call(("table", "register"), does="shows what can be put back, and the call that does it")
RELABEL = Call(("table", "relabel"), harmless=True)
RESTORE = Call(("table", "columns", "--restore"), harmless=True)
ADOPT = Call(("table", "adopt"))
ADOPT_REST = ADOPT.plus("--at", "rows", "--without-missing")
GIVE_UP = Call(("table", "give-up"))
REPAIR_MANIFESTS = Call(("table", "repair-manifests"), harmless=True)
LANDINGS = Call(("landings", "show"), does="lists the landings")
UPGRADE = Do("upgrade sls-lake to the release that wrote the table")


def rollback(landing: int, *options: str, does: str = "") -> Call:
    """The table goes back to that landing."""
    return Call(("table", "rollback", str(landing), *options), does=does)


def expire(kept: int) -> Call:
    """All snapshots leave but so many of the newest."""
    only = ("table", "maintain", "--only", "expire", "--snapshots", str(kept))
    return Call(only, harmless=True, does="main does not need it, and the snapshots that do expire")


def moved(origin: str) -> Call:
    """The logstore that the table knows as `origin` goes on under another name."""
    return ADOPT.plus("--moved", origin, "--at", "begin")


def copied_to(where: str) -> Call:
    """That place gets what the ledger has."""
    words = ("checkpoints", "set", "--from", "ledger", "--to", where, "--forward-only")
    return Call(words, harmless=True, does="copies now")


def put_into(where: str) -> Call:
    """That mirror is where the ledger is, back or forth, and runs move it on from there."""
    words = ("checkpoints", "set", "--from", "ledger", "--to", where)
    return Call(words, does="puts it where the table is")


def made_group(name: str) -> Call:
    """A consumer group is made, with the settings that `groups set` has."""
    return Call(("groups", "set", name), harmless=True, does="makes the group")


def resume(shards: Iterable[int]) -> Call:
    """Shards that somebody paused land again."""
    return Call(("shards", "resume", *map(str, shards)), harmless=True)


def retype(*columns: str) -> Call:
    """Columns begin anew with the types that are declared."""
    return Call(
        ("table", "columns", *(word for name in columns for word in ("--retype", name))), harmless=True
    )


def plain(*keys: str) -> Call:
    """Values of these keys may land as they are sent."""
    words = (word for name in keys for word in ("--plain", name))
    return Call(("table", "columns", *words), does="lets them land as they are sent")


def of_hours(call: Call, span: str, does: str = "") -> Call:
    """The same for the receive hours of `span`, as `hours.spans` writes them."""
    return call.plus(*span.split(), does=does)


def shown(cure: Cure, logstore: str = "") -> str:
    """As it is typed, for this logstore; "" where the project has one alone."""
    if isinstance(cure, Do):
        return cure.text
    wanted = bool(logstore) and cure.words[0] not in OF_NO_LOGSTORE and "-l" not in cure.words
    named = ("-l", logstore) if wanted else ()
    return shlex.join((PROGRAM, *cure.words, *named, *("--execute",) * cure.harmless))


def line(cure: Cure, logstore: str = "") -> str:
    """As `shown`, and what it does as a shell's comment, so that the whole line runs when it is copied."""
    does = cure.does if isinstance(cure, Call) else ""
    return shown(cure, logstore) + (f"   # {does}" if does else "")


def phrase(cures: Iterable[Cure], logstore: str = "") -> str:
    """Within a sentence."""
    told = ((shown(cure, logstore), cure.does if isinstance(cure, Call) else "") for cure in cures)
    return "; ".join(f"{text} ({does})" if does else text for text, does in told)


def documents(cures: Iterable[Cure], logstore: str = "") -> list[dict[str, str]]:
    """For JSON: {"call", "does"} or {"do"}."""
    return [
        {"do": cure.text}
        if isinstance(cure, Do)
        else {"call": shown(cure, logstore)} | ({"does": cure.does} if cure.does else {})
        for cure in cures
    ]
