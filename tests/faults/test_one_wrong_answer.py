"""One wrong answer of the storage: nothing is called gone or damaged for it, and nothing is given up."""

import shutil
import uuid

import pytest

from pipelines.landing.ledger.reading import Misread
from pipelines.landing.table.former import newer, strangers, versions
from sls_io.values.errors import SlsError, TransportError
from tests.faults.lying_io import Lie, LyingIO, lie, lying
from tests.worlds.foreign_deletes import local, mark_deleted
from tests.worlds.one_logstore import World


@pytest.mark.parametrize("how", ["absent", "cut"])
@pytest.mark.parametrize("about", [".metadata.json", ".avro", ".parquet"])
def test_a_first_answer_that_is_wrong_is_asked_again_or_said_to_be_doubtful(
    world: World, about: str, how: Lie
) -> None:
    world.begun(20, waiting=5)
    world.lake = lying(world.lake)
    rows = len(world.table_rows())
    assert world.proof().ok

    lie(about, how)
    try:
        proof = world.proof()
    except (TransportError, Misread) as error:
        assert "run it again" in str(error).lower()
    else:
        assert all("run it again" in problem.lower() for problem in proof.problems)
    assert LyingIO.told, "it was asked about such a file"

    lie(about, how)
    for _ in range(12):  # a run that is told wrong ends, and the next one is told wrong of the next file
        try:
            world.land()
        except SlsError as error:
            assert isinstance(error, TransportError | Misread), error
            assert "run it again" in str(error).lower()
        else:
            break
    lie(about, None)
    assert world.land().rows == 0 and len(world.table_rows()) == rows + 5
    assert world.proof().ok


def test_metadata_in_the_folder_is_asked_for_again_before_it_is_passed_over(world: World) -> None:
    world.begun(20, waiting=5)
    world.lake = lying(world.lake)
    before = world.table
    world.land()
    world.land_more(5)
    table = world.table
    folder, mine = f"{table.location()}/metadata", str(table.metadata.table_uuid)
    other = local(folder) / f"00000-{uuid.uuid4()}.metadata.json"
    shutil.copyfile(local(table.metadata_location), other)
    other.write_text(other.read_text().replace(mine, str(uuid.uuid4())))

    lie(".metadata.json", "absent")
    there = versions(table.io, folder)
    assert there is not None
    later = newer(table.io, there, before.metadata_location, mine)
    LyingIO.told.clear()
    told = strangers(table.io, folder, table.metadata, table.metadata_location, 0)

    assert later is not None and later.path == table.metadata_location
    assert len(told) == 1 and other.name in told[0] and "of another table" in told[0]
    assert LyingIO.told


def test_a_row_level_delete_that_is_gone_is_named_and_one_wrong_answer_about_it_is_not_believed(
    world: World,
) -> None:
    world.begun(20, waiting=0)
    world.lake = lying(world.lake)
    assert mark_deleted(world, lambda n: n == 3) == 1
    (path,) = {each.file_path for task in world.table.scan().plan_files() for each in task.delete_files}
    name = path.rpartition("/")[2]

    lie(name, "absent")
    with pytest.raises(TransportError, match="run it again"):
        world.proof(rows=True)
    lie(name, None)
    local(path).unlink()

    assert any(f"file is gone: {name}" in problem for problem in world.proof().problems)
