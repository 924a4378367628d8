"""A shard's backlog in words, for `land --dry-run` and `describe`."""

from pipelines.cli.output import Output, megabytes, span
from pipelines.landing.run.report import Backlog

SHOWN_S = 10.0
"""A backlog that the quota lets out in less time than this gets no line."""


def say_backlog(output: Output, shard: int, backlog: Backlog | None) -> None:
    """One line where the quota binds; two where no schedule catches up."""
    if backlog is None or (backlog.reading_s < SHOWN_S and not backlog.hopeless):
        return
    output.say(
        f"shard {shard} is bound by the shard's quota: {backlog.mb_per_s:g} MB/s. About "
        f"{megabytes(backlog.raw_bytes)} wait, {span(backlog.reading_s)} of reading at least "
        f"(from its lag and the {megabytes(backlog.hour_bytes)} a receive hour that landed lately)"
    )
    if backlog.hopeless:
        output.say(
            f"  more comes to shard {shard} than the quota lets out: split it, or have the quota raised "
            "and say so in `budget.shard_mb_per_s`"
        )
