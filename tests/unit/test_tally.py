"""What tasks tell of themselves while they work."""

from pathlib import Path

from pipelines.landing.run.tally import PullTally, tell, told


def test_windows_are_added_up_and_one_that_is_written_again_counts_once(tmp_path: Path) -> None:
    assert told(tmp_path) == PullTally()
    tell(str(tmp_path), 0, PullTally(3, 100, 5_000))
    tell(str(tmp_path), 1, PullTally(1, 7, 2**40))
    tell(str(tmp_path), 0, PullTally(1, 40, 2_000))
    assert told(tmp_path) == PullTally(2, 47, 2**40 + 2_000)


def test_a_folder_that_is_gone_stops_nobody_and_half_a_file_counts_nothing(tmp_path: Path) -> None:
    tell(str(tmp_path / "gone"), 0, PullTally(1, 1, 1))
    (tmp_path / "4").write_bytes(b"half")
    assert told(tmp_path) == PullTally()
