"""Rows of a page in data files: in order, counted, and files end at a page's edge, however long the rows."""

import traceback
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipelines.landing.barring import Barring
from pipelines.landing.run.spark_task import ROW_VERSION, FileRow, WriteJob, Writer
from pipelines.landing.run.tally import told
from pipelines.landing.run.write import WrittenWindow, crowded, raised_in
from pipelines.landing.table.contract import Contract
from sls_io.decoding.decode import PagePart
from sls_io.planning.values import PlannedWindow
from sls_io.values.errors import CodeFailed, ConfigError, TransportError
from sls_io.values.settings import Budget, Service
from sls_io.values.window import Cursor, Window
from sls_io.wire.loggroup import frame, varint
from sls_io.wire.page import Page

HOUR = 489_000
COLUMNS = {"n": "long", "s": "string"}
MB = 1024 * 1024


def field(tag: bytes, value: bytes) -> bytes:
    """A field of bytes."""
    return tag + varint(len(value)) + value


def log(n: int, size: int) -> bytes:
    """A log with a number and a text of so many bytes, as a field of its group."""
    pairs = ((b"n", b"%d" % n), (b"s", b"%d" % n + b"x" * size))
    return frame(
        b"\x08\x05" + b"".join(field(b"\x12", field(b"\n", k) + field(b"\x12", v)) for k, v in pairs)
    )


def written(folder: Path, *pages: tuple[int, int], tally: str = "") -> list[FileRow]:
    """The files of a window with pages of one group each: so many logs of so many bytes."""
    contract = Contract.from_columns(COLUMNS)
    schema = contract.iceberg_schema()
    job = WriteJob(
        service=Service(endpoint="http://127.0.0.1:1", project="demo", logstore="long"),
        budget=Budget(),
        origin="o-1",
        attempt="0" * 32,
        windows=(PlannedWindow(Window(0, Cursor(0), Cursor(len(pages)), HOUR), bytes_max=2**40),),
        columns=COLUMNS,
        transform="",
        schema=schema,
        location=f"file://{folder}",
        io_properties={},
        table_properties={},
        deadline_s=0.0,
        barring=Barring(),
    )
    writer, decoder = Writer(job, 0, tally), contract.decoder("o-1", schema)

    def parts(place: int, logs: int, size: int) -> Iterator[PagePart]:
        raw = frame(b"".join(log(place * 1000 + n, size) for n in range(logs)))
        at = Cursor(place)
        return decoder.open(Page(0, at, Cursor(place + 1), 1, len(raw), "", raw, None)).parts(HOUR)

    for place, (logs, size) in enumerate(pages):
        for part in parts(place, logs, size):
            writer.add(part)
        writer.page(next_cursor=Cursor(place + 1), raw_bytes=1, groups=1, forward=False)
    return writer.finish(stopped="", cause="")


def numbers(row: FileRow) -> list[int]:
    """The column `n` of a file."""
    found: list[int] = pq.read_table(row.path.removeprefix("file://"), columns=["n"])["n"].to_pylist()
    return found


def ids() -> dict[str, int]:
    """Field id of each column."""
    return {f.name: f.field_id for f in Contract.from_columns(COLUMNS).iceberg_schema().fields}


@pytest.mark.parametrize(
    ("pages", "files"),
    [
        ([(3, 10), (2, 2 * MB), (3, 10)], [(0, 3)]),
        ([(2, 12 * MB), (30, 300_000), (1, 2 * MB)], [(0, 3)]),
        ([(20, MB // 2)] * 5 + [(2, 2 * MB), (1, 1), (2, 2 * MB)], [(0, 5), (5, 8)]),
    ],
    ids=["buffered before", "first", "file with statistics before"],
)
def test_long_rows_stand_in_order_in_a_file_without_statistics_of_texts(
    tmp_path: Path, pages: list[tuple[int, int]], files: list[tuple[int, int]]
) -> None:
    found = written(tmp_path, *pages)
    assert [(row.first, row.next) for row in found] == files
    for row in found:
        sent = [p * 1000 + n for p in range(row.first, row.next) for n in range(pages[p][0])]
        assert numbers(row) == sent
        assert (row.rows, row.pages) == (len(sent), row.next - row.first)
        number = ids()
        bounds = {int(field) for field in row.metrics["upper_bounds"]}
        assert {number["n"], number["__cursor__"], number["__origin__"]} <= bounds
        assert number["s"] not in bounds
    whole = sum(row.sum for row in found) % 2**64
    assert whole == sum(row.sum for row in written(tmp_path, *((n, 1) for n, _ in pages))) % 2**64


def test_a_row_group_holds_about_eight_megabytes_of_long_rows(tmp_path: Path) -> None:
    (row,) = written(tmp_path, (5, 10), (9, 2 * MB), (1, 9 * MB), (5, 10))
    metadata = pq.read_metadata(row.path.removeprefix("file://"))
    groups = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
    assert groups == [5, 3, 3, 3, 1, 5]


def test_a_task_that_took_more_than_its_bound_is_told() -> None:
    row = FileRow(ROW_VERSION, 0, 0, 9, peak_bytes=412_000_000)
    written = [WrittenWindow(None, (row,), "")]
    assert "took 412 MB, more than budget.task_mb (300)" in crowded(written, 300)
    assert crowded(written, 412) == crowded(written, 0) == ""


def test_it_tells_how_far_it_is_over_all_its_files(tmp_path: Path) -> None:
    (tmp_path / "tally").mkdir()
    files = written(tmp_path, (3, 10), (2, 10), tally=str(tmp_path / "tally"))
    done = told(tmp_path / "tally")
    assert (done.pages, done.rows) == (2, 5)
    assert done.raw_bytes == sum(file.raw_bytes for file in files) > 0


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConfigError("columns: no"), ConfigError),
        (CodeFailed("its own code failed", "pack.code", "a transform"), ConfigError),
        (TransportError("no storage"), TransportError),
        (ValueError("none of ours"), type(None)),
    ],
)
def test_what_a_task_raised_is_one_of_ours_again(error: Exception, kind: type) -> None:
    """Spark hands the worker's traceback on as text, with the full name of the error in it."""
    text = "An error occurred\n" + "".join(traceback.format_exception(error)) + "\n\tat Java.run"
    told = raised_in(RuntimeError(text))
    assert type(told) is kind
    assert told is None or str(error) in str(told)
