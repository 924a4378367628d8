"""The process that Spark forks its Python workers from, for a landing on a local master.

    spark.python.daemon.module = pipelines.landing.run.worker_daemon

Spark's own daemon forks workers that know nothing, and each of them imports all that a writing task needs:
more than a second of CPU a worker. Here it is imported before the first fork, once, and from what is
installed (`python_path.py`).

A fork takes one thread along, so there must be no other one that could hold a lock: the two libraries that
start threads when they are imported, Arrow's jemalloc and OpenBLAS, are told before not to. Neither has use
for one here: Arrow's memory is mimalloc's, and nothing of a landing is linear algebra.
"""

import gc
import os
import sys

from pipelines.landing.spark.python_path import without_archives

os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path[:] = without_archives(sys.path)
sys.path_importer_cache.clear()

# What is imported here is what is forked.
import pipelines.landing.run.spark_task  # noqa: E402, F401
from pipelines.landing.spark.session import serve_workers  # noqa: E402
from pipelines.landing.task_storage import keep_memory  # noqa: E402

if __name__ == "__main__":
    keep_memory()
    # Workers collect garbage after each task: what is here before the fork need not be looked at again,
    # and stays in memory that all of them share.
    gc.collect()
    gc.freeze()
    serve_workers()
