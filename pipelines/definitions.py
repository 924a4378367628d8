"""What Dagster loads: every folder of `pipelines/defs`, run in one process."""

from pathlib import Path

import dagster as dg


@dg.definitions
def defs() -> dg.Definitions:
    """All definitions. The executor holds for the runs that the web page and backfills make, too:
    steps of one run share its engine, and a terminated run leaves no child behind."""
    loaded = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
    return dg.Definitions.merge(loaded, dg.Definitions(executor=dg.in_process_executor))
