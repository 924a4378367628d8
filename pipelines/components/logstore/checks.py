"""The blocking check: what landed agrees with what the service said and with the files.

A failing one ends the step, so that the checkpoint, which comes after it, stays where it is.
Dagster runs the code after a yielded check although the check failed; whoever yields it returns.
"""

import dagster as dg

from pipelines.landing.report import Verdict

RECONCILED = "reconciled"


def reconciled_spec(bronze: dg.AssetKey) -> dg.AssetCheckSpec:
    """The check `reconciled` of the landed table."""
    return dg.AssetCheckSpec(
        RECONCILED,
        asset=bronze,
        blocking=True,
        description=(
            "The files of the newest landing exist, their rows are what the service counted page by page, "
            "and the ledger was not rolled back. While this fails no checkpoint moves."
        ),
    )


def reconciled_result(bronze: dg.AssetKey, verdict: Verdict) -> dg.AssetCheckResult:
    """The verdict as Dagster stores it: its problems first, then what it looked at."""
    lines = [*verdict.problems, *verdict.facts]
    return dg.AssetCheckResult(
        asset_key=bronze,
        check_name=RECONCILED,
        passed=verdict.ok,
        severity=dg.AssetCheckSeverity.ERROR,
        description="; ".join(verdict.problems) or None,
        metadata={"found": dg.MetadataValue.md("\n".join(f"- {line}" for line in lines))} if lines else {},
    )
