"""Chaos: real processes land from a faulty service while they are killed and paused, then all is counted.

    __main__     arguments, the printed account, the exit status
    conductor    forks processes, kills and stops them, splits and merges shards, reads what they tell
    worker       one forked process: production runs in a loop, until its fate or the conductor ends it
    engine       the writing tasks of `pipelines.landing.write` in the worker's own process, without Spark
    catalog      a SQLite catalog that loses answers and delivers requests late or twice
    producer     puts numbered logs
    watch        beside it all: audits table and checkpoints, expires snapshots, delivers late requests
    weather      the emulator's faults, switched on and off
    proof        the verifier: DuckDB over the Parquet files that the table lists, and the emulator's dump

Nothing of fetch, decode, planning, ledger or landing takes part in the proof.
"""
