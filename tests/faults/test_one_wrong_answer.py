"""One wrong answer of the storage: nothing is called gone or damaged for it, and nothing is given up."""

import pytest

from pipelines.landing.ledger.reading import Misread
from sls_io.values.errors import SlsError, TransportError
from tests.faults.lying_io import Lie, LyingIO, lie, lying
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
