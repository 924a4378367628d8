"""Verbs that read or write data files fit the memory of a landing's task, whatever the files hold."""

from bench.bench_rewrites import LIMIT_MB, peaks

RAW_MB, LOG_BYTES = 300, 100_000


def test_verbs_over_files_of_rows_that_look_alike_take_no_more_memory_than_a_landings_task() -> None:
    """The same with shorter logs, which takes longer: `python -m bench.bench_rewrites`."""
    took = peaks(RAW_MB, LOG_BYTES)
    assert all(each["file_mb"] < 1 for each in took.values())
    assert all(each["rows"] for each in took.values()), took
    over = {verb: each["peak_mb"] for verb, each in took.items() if each["peak_mb"] >= LIMIT_MB}
    assert not over
