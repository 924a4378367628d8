"""A data file that takes the place of others, as it is written: rows wait until they make a row group.

Both sides of a row group are bounded as a landing's are: by rows, and by the bytes that they take before they
are in the file.

Story of the bound: a compaction reads 500 small files of an hour into one. They are 40 MB together in
storage, and 6 GB as rows that look alike. Whoever hands all of them to Parquet at once has them in memory;
here about 48 MB wait at a time.

Nobody sees the file until its entry is committed, and nothing of it is ever taken back here: what fails is
left to the sweep, as a landing's files are.
"""

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from pipelines.landing.table.data_files import (
    LONG_GROUP_BYTES,
    ROW_GROUP_BYTES,
    ROW_GROUP_ROWS,
    data_file,
    long_rows,
    metrics_of,
    parquet_writer,
)
from pipelines.landing.table.trouble import storage_trouble
from sls_io.values.errors import TransportError


class NewFile:
    """A file in the partition of `like`, in `folder` below the table's data, its name begins with `name`.

    Nothing is in storage before the first row group. `group_bytes`: about the most of one.

    `like` gives the partition alone, so all rows must be of it: nobody looks at them here. In use: within
    `begun`, `add` for each batch, then `close` once.
    """

    def __init__(
        self,
        table: Table,
        schema: Schema,
        like: DataFile,
        folder: str,
        *,
        name: str = "",
        group_bytes: int = ROW_GROUP_BYTES,
    ) -> None:
        self._table, self._schema, self._like, self._group_bytes = table, schema, like, group_bytes
        self._path = f"{table.location()}/data/{folder}/{name}{uuid.uuid4().hex}.parquet"
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = self._waiting_rows = 0
        self._long = False
        self._stream: Any = None
        self._parquet: pq.ParquetWriter | None = None

    @property
    def size(self) -> int:
        """Bytes in storage so far."""
        return 0 if self._stream is None else int(self._stream.tell())

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the rows, and write what makes a row group. Raises OSError as the storage does.

        Rows of a megabyte each come into row groups of their own, which are smaller: a group is in memory
        whole before it is written.
        """
        if not batch.num_rows:
            return
        long = long_rows(batch)
        if long != self._long:
            self._flush()
        self._long = long
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        self._waiting_rows += batch.num_rows
        most = min(LONG_GROUP_BYTES, self._group_bytes) if long else self._group_bytes
        if self._waiting_bytes >= most or self._waiting_rows >= ROW_GROUP_ROWS:
            self._flush()

    def close(self) -> DataFile | None:
        """The entry of the file; None when it was given no row. Raises OSError as the storage does."""
        self._flush()
        if self._parquet is None:
            return None
        self._parquet.close()
        size = self.size
        self._stream.close()
        return data_file(
            path=self._path,
            size=size,
            metrics=metrics_of(self._parquet, self._schema, self._table.properties),
            partition=self._like.partition,
            spec_id=self._like.spec_id,
        )

    @contextlib.contextmanager
    def begun(self) -> Iterator[None]:
        """Around all that is added, and the close: whatever fails, the file is abandoned. Raises
        TransportError where the storage does not take it; nothing was changed then."""
        try:
            yield
        except BaseException as error:
            self.abandon()
            if isinstance(error, OSError):
                trouble = storage_trouble(self._table.location(), error)
                raise TransportError(f"{trouble}; nothing was changed") from error
            raise

    def abandon(self) -> None:
        """After a failure: let go of the storage; what was written stays behind as an orphan."""
        for each in (self._parquet, self._stream):
            if each is not None:
                with contextlib.suppress(OSError):
                    each.close()

    def _flush(self) -> None:
        if not self._waiting:
            return
        rows = pa.Table.from_batches(self._waiting)
        if self._parquet is None:
            self._stream = self._table.io.new_output(self._path).create(overwrite=True)
            self._parquet = parquet_writer(self._stream, rows, self._table.properties, long=self._long)
        self._parquet.write_table(rows, row_group_size=ROW_GROUP_ROWS)
        # Let go before the pool is told to give back what nobody uses.
        del rows
        self._waiting, self._waiting_bytes, self._waiting_rows = [], 0, 0
        # Decoded by several threads: without this, what each of them freed stays with the process.
        pa.default_memory_pool().release_unused()
