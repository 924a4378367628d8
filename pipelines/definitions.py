"""What Dagster loads: every folder of `pipelines/defs`, run in one process."""

from pathlib import Path

import dagster as dg

from pipelines.landing.defs_file import check_folder


@dg.definitions
def defs() -> dg.Definitions:
    """All definitions. The executor holds for the runs that the web page and backfills make, too:
    steps of one run share its engine, and a terminated run leaves no child behind."""
    # Dagster's reader takes a key twice, and one of an alias bomb never comes back.
    check_folder(Path(__file__).parent / "defs")
    loaded = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
    return dg.Definitions.merge(loaded, dg.Definitions(executor=dg.in_process_executor))
