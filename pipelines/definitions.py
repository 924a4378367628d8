"""What Dagster loads: every folder of a project's `defs`, run in one process."""

import warnings
from pathlib import Path

import dagster as dg

from pipelines.landing import json_log
from pipelines.landing.defs_file import check_folder
from pipelines.landing.table.home import use
from pipelines.landing.umask import keep_others_out

# Code servers and runs begin here, and `dagster` started them, which leaves the umask as it is.
keep_others_out()
json_log.speak()


@dg.definitions
def defs() -> dg.Definitions:
    """All definitions of the checkout."""
    return loaded(Path(__file__).parent)


def loaded(package: Path) -> dg.Definitions:
    """All definitions in the folder `defs` of a project's package. The executor holds for the runs that the
    web page and backfills make, too: steps of one run share its engine, and a terminated run leaves no child
    behind."""
    use(package)
    # Dagster's reader takes a key twice, and one of an alias bomb never comes back.
    check_folder(package / "defs")
    # Not `load_from_defs_folder`: that imports every package here that has component types, dbt's too, to
    # list them on a page of their own, and each run of a landing would wait for it.
    tree = dg.ComponentTree.for_project(package)
    own = dg.Definitions(executor=dg.in_process_executor, component_tree=tree)
    with warnings.catch_warnings():
        # Of Dagster about itself, in the log of each run.
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return dg.Definitions.merge(tree.build_defs(Path()), own)
