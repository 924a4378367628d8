"""Chaos: real processes land from a faulty service while they are killed and paused, then all is counted.

    __main__     arguments, the printed account, the exit status
    conductor    forks processes, kills and stops them, reads what they tell
    worker       one forked process: production runs in a loop, until its fate or the conductor ends it
    engine       the tasks of `pipelines.landing.run.spark_task` in the worker's own process, without Spark
    dagster_lane the same with runs of Dagster, each with a Spark; site is the instance, line how they talk
    cluster_lane the same with tasks in executors of a standalone Spark, which cluster starts and strikes
    network      the way from its executors to the service, which goes down for one worker
    house        one forked process that maintains the table and takes hours back
    catalog      a SQLite catalog that loses answers and delivers requests late or twice
    reapply      a catalog that compares nothing but what a request requires
    producer     puts numbered logs
    retention    removes what has landed, and a little of what has not
    watch        beside it all: audits table and checkpoints, expires snapshots, delivers late requests
    shaker       the service: outages, splits and merges, its clock, its own death
    weather      the emulator's faults, switched on and off
    history      what retention and compaction take away, kept for the proof
    evidence     what was told and kept, put together for the proof
    proof        the verifier: DuckDB over the Parquet files that the table lists, and the emulator's dump
    account      what is counted and printed

Nothing of fetch, decode, planning or landing takes part in the proof. Of the ledger it takes the gaps and the
withdrawn hours, and believes them as far as retention and undo were really seen to act.
"""

import os

from tests.inherited import forget

forget(os.environ)
