"""The memory of a process that decodes pages: what it keeps, and the most it had.

A page is some megabytes, and so is each step on its way to columns. Given back to the system when they are
freed, such blocks come back with the next page zeroed, 4 KB at a time. On a virtual machine that was a
quarter of the CPU of rows: 143 raw MB a CPU second, and 197 where blocks are kept (`bench_profile`, 100 MB);
decompressing alone took 1.4 ms a MB, and 0.2.
"""

import contextlib
import ctypes
import os
import resource

import pyarrow as pa

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # mallopt(3)
_BLOCK_BYTES, _SPARE_BYTES = 32 * 1024 * 1024, 128 * 1024 * 1024
_OWN_CHOICE = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")
_POOL_VARIABLE = "ARROW_DEFAULT_MEMORY_POOL"


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
