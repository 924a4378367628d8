"""Limits and switches of the emulator, checked once. Defaults are the same alone and in tests."""

from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from sls_io.values.settings import PAGE_GROUPS_MAX, Settings

MIB = 1024 * 1024
MB = 1_000_000


class Limits(Settings):
    """Bytes are bytes, times seconds. Quotas are the documented ones of the service; 0 is none.

    put_bytes_max       one LogGroup, uncompressed
    bodies_bytes_max    all request bodies that are being read at one time; over it 503 ServerBusy
    page_bytes_max      one PullLogs answer, uncompressed; one LogGroup always fits
    cache_bytes_max     compressed answers kept to be served again
    memory_bytes_max    LogGroups kept when there is no data folder; over it writes get 403
    check_log_times     refuse logs with a time outside [-7 days, +15 minutes] of the receive time;
                        off, because old log files are loaded in demos
    check_groups        refuse a body that is no LogGroup, as the service does; off, anything is stored,
                        for readers that must bear what they are sent
    skew_s              allowed distance of a signed request's date from the machine's clock
    shard_..._per_s     quotas per shard and second: 403 ShardWriteQuotaExceed, ShardReadQuotaExceed
    project_..._per_min quotas per project and minute: 403 WriteQuotaExceed, ReadQuotaExceed

    Quotas run by the machine's seconds, and a clock that is moved on counts as so many more: a test that
    stops the clock does not starve, and one that moves it does not wait. Source: the vendor's pages on
    shards (5 MB/s and 500 calls written, 10 MB/s and 100 calls read) and on limits (per project).
    """

    model_config = ConfigDict(strict=True)

    put_bytes_max: Annotated[int, Field(ge=1024, le=60 * MIB)] = 10 * MIB
    bodies_bytes_max: Annotated[int, Field(ge=64 * MIB)] = 512 * MIB
    page_bytes_max: Annotated[int, Field(ge=1, le=32 * MIB)] = 10 * MIB
    page_groups_max: Annotated[int, Field(ge=1, le=PAGE_GROUPS_MAX)] = PAGE_GROUPS_MAX
    cache_bytes_max: Annotated[int, Field(ge=0)] = 128 * MIB
    segment_bytes_max: Annotated[int, Field(ge=4096, le=16 * 1024 * MIB)] = 256 * MIB
    memory_bytes_max: Annotated[int, Field(ge=MIB)] = 2048 * MIB
    groups_max: Annotated[int, Field(ge=1)] = 30
    logstores_max: Annotated[int, Field(ge=1)] = 200
    check_log_times: bool = False
    check_groups: bool = True
    skew_s: Annotated[int, Field(ge=0)] = 900
    shard_write_bytes_per_s: Annotated[int, Field(ge=0)] = 5 * MB
    shard_write_calls_per_s: Annotated[int, Field(ge=0)] = 500
    shard_read_bytes_per_s: Annotated[int, Field(ge=0)] = 10 * MB
    shard_read_calls_per_s: Annotated[int, Field(ge=0)] = 100
    project_write_bytes_per_min: Annotated[int, Field(ge=0)] = 100_000 * MB
    project_write_calls_per_min: Annotated[int, Field(ge=0)] = 600_000
    project_read_calls_per_min: Annotated[int, Field(ge=0)] = 600_000

    @model_validator(mode="after")
    def _one_group_fits_a_page(self) -> Self:
        if self.put_bytes_max + self.page_bytes_max > 64 * MIB:
            raise ValueError("put_bytes_max + page_bytes_max: at most 64 MiB, the most a reader takes")
        return self


QUOTAS_OFF = {name: 0 for name in Limits.model_fields if name.startswith(("shard_", "project_"))}
"""What measures a client's own speed says: `Limits.model_validate(QUOTAS_OFF)`."""
