"""Files that are gone, damaged or another one's, and rows in a strange hour: what is named works, keeps most,
and what nothing brings back is given up alone and stays a number."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pipelines.cli.main import EXIT_FAILED
from pipelines.landing.hours import hour_text
from pipelines.landing.ledger.summary import summary_of
from sls_io.values.errors import LedgerBroken
from sls_io.values.window import HOUR_S
from tests.worlds.changed_table import expire_all
from tests.worlds.command_line import Command
from tests.worlds.landed_hours import an_hour_later, files_of, hours, lose, numbers, take_all_hours
from tests.worlds.one_logstore import World
from tests.worlds.printed_cures import printed, run_as_printed, settle, ways


def cures(proof: dict[str, Any]) -> list[list[str]]:
    """The first two words of the calls that a verdict names, in their order."""
    return [call[:2] for text in ways(proof) for call in printed(text)]


# --- what retention has taken --------------------------------------------------------------------


def test_a_lost_file_that_nothing_brings_back_is_given_up_alone(world: World, command: Command) -> None:
    take_all_hours(world)
    lose(world, hours(world)[1])

    proof = command("verify")
    done = settle(world, command)

    assert cures(proof)[0] == ["table", "give-up"], ways(proof)
    assert [words[:2] for words in done] == [["table", "give-up"]]
    assert numbers(world) == [*range(20), *range(40, 60)]
    world.land_more(20, pass_s=HOUR_S)
    world.assert_proved()
    after = command("verify")
    notes = [note for shard in after["shards"] for note in shard["notes"]]
    given = [int(word) for note in notes if "given up" in note for word in note.split() if word.isdigit()]
    assert sum(given) == 20
    assert numbers(world) == [*range(20), *range(40, 80)]


def test_a_lost_file_is_given_up_when_no_landing_can_be_gone_back_to(world: World, command: Command) -> None:
    first, second, _ = hours(world)
    assert command("table", "undo", "--hour", hour_text(first), "--execute")["executed"]
    assert command("table", "forget", "--where", "n = 45", "--execute")["executed"]
    take_all_hours(world)
    lose(world, second)

    proof = command("verify")
    done = settle(world, command)

    assert cures(proof) == [["table", "give-up"]]
    assert [words[:2] for words in done] == [["table", "give-up"]]
    assert numbers(world) == [n for n in range(40, 60) if n != 45]
    assert command("table", "maintain", "--execute")["put_off"] == []
    world.land_more(20, pass_s=HOUR_S)
    world.assert_proved()


@pytest.mark.parametrize("before", [expire_all, lambda world: None], ids=["expired", "kept"])
def test_what_is_given_up_is_withdrawn_and_lands_again_where_the_service_has_it(
    world: World, command: Command, before: Callable[[World], None]
) -> None:
    hour = hours(world)[1]
    before(world)
    lose(world, hour)

    said = command("table", "give-up", "--execute")

    assert said["executed"] and said["rows"] == 20 and said["kept"]["lost"] == 0
    assert said["hours"] == {str(hour): 20}
    world.assert_proved()
    world.land()
    assert numbers(world) == [*range(20), *range(40, 60)], "no live run lands it again"
    world.land(mode="fill", hours=(hour, hour + 1))
    world.assert_sound()


def test_only_the_lost_file_of_an_hour_is_given_up(world: World, command: Command) -> None:
    take_all_hours(world)
    lost, *others = files_of(world, hours(world)[1])
    assert others
    gone = set(pq.read_table(lost, columns=["n"])["n"].to_pylist())
    lost.unlink()

    settle(world, command)

    assert numbers(world) == [n for n in range(60) if n not in gone]
    world.assert_proved()


def test_a_compacted_file_of_several_shards_is_given_up(world: World, command: Command) -> None:
    assert command("table", "maintain", "--execute", "--only", "compact")["compacted"]
    (lost,) = files_of(world, hours(world)[1]) or [
        path for path in map(Path, world.published()) if holds(path, hours(world)[1])
    ]
    expire_all(world)
    take_all_hours(world)
    lost.unlink()

    done = settle(world, command)

    assert [words[:2] for words in done] == [["table", "give-up"]]
    assert numbers(world) == [*range(20), *range(40, 60)]
    world.assert_proved()


def holds(path: Path, hour: int) -> bool:
    """Whether a file holds rows of a receive hour."""
    at = pq.read_table(path, columns=["__receive_hour__"])["__receive_hour__"]
    return bool(
        pc.equal(at[0].cast(pa.timestamp("us", "UTC")).cast(pa.int64()), hour * HOUR_S * 10**6).as_py()
    )


def test_giving_up_is_refused_while_rows_were_lost_in_another_way_too(world: World, command: Command) -> None:
    second = hours(world)[1]
    world.table.delete("n < 5")
    lose(world, second)
    head = world.table.metadata.current_snapshot_id

    said = command("table", "give-up", "--execute")

    assert said["code"] == EXIT_FAILED and "in another way" in said["error"]
    assert world.table.metadata.current_snapshot_id == head
    take_all_hours(world)
    expire_all(world)
    (words,) = printed(said["error"])
    (named,) = [c for c in ways(command("verify")) if printed(c)]
    assert printed(named) == [words], "verify leaves nobody without a way"
    run_as_printed(world, command, words)
    assert numbers(world) == [*range(5, 20), *range(40, 60)]
    world.land_more(20, pass_s=HOUR_S)
    world.assert_proved()


def test_a_table_without_a_lost_file_has_nothing_to_give_up(world: World, command: Command) -> None:
    said = command("table", "give-up", "--execute")
    assert said["code"] != 0 and "nothing is lost" in said["error"]


def test_the_dry_run_of_a_rollback_says_what_it_costs(world: World, command: Command) -> None:
    _, second, third = hours(world)
    snapshots = sorted(world.table.metadata.snapshots, key=lambda s: s.sequence_number or 0)
    target = next(s.snapshot_id for s in snapshots if summary_of(s).get("total-records") == "20")

    cheap = command("table", "rollback", str(target))
    take_all_hours(world)
    world.land_more(20, pass_s=HOUR_S)
    dear = command("table", "rollback", str(target))

    assert cheap["kept"] == {"rows": 40, "lost": 0, "hours": []}
    assert dear["kept"] == {"rows": 60, "lost": 40, "hours": [second, third]}
    assert cheap["does_it"]["loses"] == []
    assert any("up to 40 of the 60 rows" in text for text in dear["does_it"]["loses"])


# --- the newest hour, several files, a file of another ---------------------------------------------


def newest_unfinished(world: World) -> None:
    before = hours(world)[-1]
    world.land_more(20)
    newest = hours(world)[-1]
    assert newest > before
    lose(world, newest)


def several(world: World) -> None:
    for hour in hours(world):
        files_of(world, hour)[0].unlink()


def several_and_the_newest_unfinished(world: World) -> None:
    files_of(world, hours(world)[0])[0].unlink()
    newest_unfinished(world)


def another_hours(world: World) -> None:
    """A lost file is restored from the wrong one."""
    first, second, _ = hours(world)
    shutil.copy(files_of(world, first)[0], files_of(world, second)[0])


def another_of_its_hour(world: World) -> None:
    one, other, *_ = files_of(world, hours(world)[1])
    shutil.copy(one, other)


def moved(world: World) -> None:
    """Another engine labels the rows of the first hour as the second's."""
    rows = world.table.scan().to_arrow()
    first = pc.equal(rows.column("__receive_hour__"), pc.min(rows.column("__receive_hour__")))
    world.table.overwrite(
        pa.concat_tables([rows.filter(pc.invert(first)), an_hour_later(rows.filter(first))])
    )


def moved_in_part(world: World) -> None:
    rows = world.table.scan().to_arrow()
    first = pc.equal(rows.column("__receive_hour__"), pc.min(rows.column("__receive_hour__")))
    mine = rows.filter(first)
    world.table.overwrite(
        pa.concat_tables([rows.filter(pc.invert(first)), an_hour_later(mine.slice(0, 7)), mine.slice(7)])
    )


def moved_back(world: World) -> None:
    """Rows of the second hour are labelled as the first's."""
    rows = world.table.scan().to_arrow()
    times = rows.column("__receive_hour__")
    second = pc.equal(times, pc.add(pc.min(times), pa.scalar(HOUR_S * 10**6, pa.duration("us"))))
    mine = rows.filter(second)
    place = mine.schema.get_field_index("__receive_hour__")
    field = mine.schema.field(place)
    back = pc.subtract(mine.column(place), pa.scalar(HOUR_S * 10**6, pa.duration("us"))).cast(field.type)
    world.table.overwrite(
        pa.concat_tables([rows.filter(pc.invert(second)), mine.set_column(place, field, back)])
    )


LOSSES: list[tuple[Callable[[World], None], str, str]] = [
    (newest_unfinished, "file is gone", "backfill --mode replace"),
    (several, "file is gone", "backfill --mode replace"),
    (several_and_the_newest_unfinished, "file is gone", "backfill --mode replace"),
    (another_hours, "overwritten by another one", "backfill --mode replace"),
    (another_of_its_hour, "overwritten by another one", "backfill --mode replace"),
    (moved, "its landing brought", "backfill --mode replace"),
    (moved_in_part, "its landing brought", "backfill --mode replace"),
    (moved_back, "its landing brought", "backfill --mode replace"),
]
"""What happened, what verify says of it, and what it names first."""


@pytest.mark.parametrize(("trouble", "sentence", "verb"), LOSSES, ids=lambda x: getattr(x, "__name__", None))
def test_each_cure_that_is_named_works(
    world: World, command: Command, trouble: Callable[[World], None], sentence: str, verb: str
) -> None:
    trouble(world)
    proof = command("verify")
    told = [*proof["problems"], *(p for shard in proof["shards"] for p in shard["problems"])]
    assert any(sentence in text for text in told), told

    done = settle(world, command)

    acted = [" ".join(words) for words in done if words[0] != "verify"]
    assert acted and acted[0].startswith(verb), done
    world.emulator.admin.advance(HOUR_S)
    world.land()
    world.assert_sound()


def cut_off(world: World) -> None:
    (path, *_) = files_of(world, hours(world)[1])
    path.write_bytes(path.read_bytes()[:100])


@pytest.mark.parametrize("trouble", [cut_off, another_hours, another_of_its_hour], ids=lambda x: x.__name__)
def test_no_rollback_brings_back_a_file_that_is_not_what_it_was(
    world: World, command: Command, trouble: Callable[[World], None]
) -> None:
    """The hour of a damaged file was landed anew, and retention has taken it. An older landing still lists
    that file: it has as many rows as its ledger says, and not these."""
    target = world.table.metadata.current_snapshot_id
    trouble(world)
    settle(world, command)
    world.assert_proved()
    take_all_hours(world)

    for words in ((), ("--execute",)):
        said = command("table", "rollback", str(target), *words)
        assert said["code"] == EXIT_FAILED and "cannot be had back" in said["error"]
    world.assert_proved()


def test_a_fill_that_would_land_rows_twice_is_refused(world: World, command: Command) -> None:
    """Rows of an hour that was taken back are put into the next one, for as many others that leave."""
    first, second, _ = hours(world)
    rows = world.table.scan().to_arrow()
    times = rows.column("__receive_hour__")
    mine = rows.filter(pc.equal(times, pc.min(times)))
    assert command("table", "undo", "--hour", hour_text(first), "--execute")["executed"]
    world.table.delete("n < 40")
    world.table.append(an_hour_later(mine))
    head = world.table.metadata.current_snapshot_id

    with pytest.raises(LedgerBroken, match="they would be there twice"):
        world.land(mode="fill", hours=(first, first + 1))

    assert world.table.metadata.current_snapshot_id == head
    assert max(world.identities().values()) == 1
    world.land(mode="fill", hours=(second, second + 1))
