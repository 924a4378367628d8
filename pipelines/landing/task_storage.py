"""A worker of Spark, as a task of ours finds it: storage with keys of its own, and the memory that it keeps.

A page is some megabytes, and so is each step on its way to columns. Given back to the system when they are
freed, such blocks come back with the next page zeroed, 4 KB at a time. On a virtual machine that was a
quarter of the CPU of rows: 143 raw MB a CPU second, and 197 where blocks are kept (`bench_profile`, 100 MB);
decompressing alone took 1.4 ms a MB, and 0.2.
"""

import contextlib
import ctypes
import os
import platform
import resource
from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.utils.config import Config

from pipelines.landing import json_log
from pipelines.landing.catalogs.keys import KEYS_PROPERTY, LENT_FOR
from pipelines.landing.catalogs.profiles import TO_ASK_AGAIN
from pipelines.landing.table.home import CATALOG
from pipelines.landing.table.object_store import file_io
from pipelines.landing.umask import keep_others_out
from sls_io.values.errors import ConfigError

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # mallopt(3)
_BLOCK_BYTES, _SPARE_BYTES = 32 * 1024 * 1024, 128 * 1024 * 1024
_OWN_CHOICE = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")
_POOL_VARIABLE = "ARROW_DEFAULT_MEMORY_POOL"
_STORAGE = ("s3.", "client.", "gcs.", "adls.", "hdfs.", "hf.")

# Where files lie and how to reach them. A list of what may travel, not of what must not: the next
# property somebody invents for a secret stays at home without being named here.
_PUBLIC_PROPERTIES = frozenset(
    {
        *("py-io-impl", "client.region", KEYS_PROPERTY),
        *(f"s3.{name}" for name in ("anonymous", "endpoint", "region", "resolve-region", "connect-timeout")),
        *(f"s3.{name}" for name in ("request-timeout", "force-virtual-addressing", "server-side-encryption")),
        *(f"s3.{name}" for name in ("sse-kms-key-id", "role-arn", "role-session-name", "profile-name")),
        *(f"hdfs.{name}" for name in ("host", "port", "user")),
        *(f"adls.{name}" for name in ("account-name", "account-host", "anon")),
        *(f"gcs.{name}" for name in ("project-id", "access", "service.host", "default-bucket-location")),
        "hf.endpoint",
    }
)
_PROXY = "s3.proxy-uri"


@contextlib.contextmanager
def as_worker(*, elsewhere: bool) -> Iterator[None]:
    """Around what a task does. `elsewhere`: the worker has an environment of its own. What is not set is then
    not set there, and the error names the machine."""
    # A worker of somebody's cluster has its own umask, and a warehouse may be a folder that all mount.
    keep_others_out()
    json_log.speak()
    try:
        yield
    except ConfigError as error:
        if not elsewhere:
            raise
        raise ConfigError(
            f"{error}, for the executors on {platform.node()}, where a task ran: each has what was set "
            "where its worker or server was started, and not what is set here",
            cures=error.cures,
        ) from error


def public_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """FileIO properties without secrets: executors find those in their own environment.

    Worked example: of an endpoint, a secret key and a proxy with a password in its address the endpoint
    stays; a proxy without one stays, too. What is given here travels in the closure of each task.
    """
    proxy = properties.get(_PROXY, "@")
    # A proxy's address may have a password in it.
    there = {} if "@" in proxy else {_PROXY: proxy}
    # Of a catalog that lends keys: who writes a file asks it for its own.
    more = (LENT_FOR, *TO_ASK_AGAIN) if LENT_FOR in properties else ()
    return {
        **there,
        **{name: value for name, value in properties.items() if name in _PUBLIC_PROPERTIES or name in more},
    }


def task_io(properties: Mapping[str, str], location: str) -> FileIO:
    """The storage as a task has it: the table's `properties` without a secret, and the secrets of its own
    process."""
    return file_io({**_own_properties(), **properties}, location)


def _own_properties() -> dict[str, str]:
    """What the configuration of a task's own process says of storage: the secrets."""
    configured = Config().get_catalog_config(CATALOG) or {}
    return {name: str(value) for name, value in configured.items() if name.startswith(_STORAGE)}


def keep_memory() -> bool:
    """Let the C library keep freed blocks of up to 32 MB, about 128 MB together; whether it does.

    Only glibc can be told, and whoever chose by its own variables keeps that. For a process that does nothing
    else than decode pages.
    """
    if any(name in os.environ for name in _OWN_CHOICE):
        return False
    with contextlib.suppress(OSError, AttributeError):
        said = ctypes.CDLL(None).mallopt
        return bool(said(_MMAP_THRESHOLD, _BLOCK_BYTES)) and bool(said(_TRIM_THRESHOLD, _SPARE_BYTES))
    return False


def be_frugal() -> None:
    """Arrow's usual allocator takes large pages and keeps them: a bounded task peaks about 10 MB higher with
    it (`python -m bench.bench_shapes --task-mb 300 --times 50`). Whoever chose one by Arrow's own variable
    keeps it."""
    if _POOL_VARIABLE not in os.environ:
        with contextlib.suppress(NotImplementedError):  # a build without it
            pa.set_memory_pool(pa.jemalloc_memory_pool())


def peak_bytes() -> int:
    """Most memory that this process had since `forget_peak`, where the system tells; else since it began."""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def forget_peak() -> None:
    """A worker of Spark's is used again, and a forked one begins with its parent's peak."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as refs:
        refs.write("5")
