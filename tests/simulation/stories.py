"""Races, told as stories: who does what, and what the line of production code that stops it is for.

The key is the deliberate bug in `mutants.py` that takes that line away.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Story:
    """A title and a few sentences."""

    title: str
    text: str


STORIES = {
    "merge does not look for overlaps": Story(
        "A request arrives after its answer was given up",
        "A publishes, hears nothing, and crashes; its request is still on its way. B plans the same "
        "window, publishes, and then A's request arrives. The table is not the one that A's was computed "
        "on, so the catalog refuses it. Had it come first, B would be refused, read the ledger again, and "
        "find its window in it. Without this line B's rows would be there beside A's.",
    ),
    "a live window may begin anywhere after its frontier": Story(
        "A paused run wakes up",
        "A has written windows 1 and 2 and is paused. B gets the shard, lands 1 only, and ends. A wakes "
        "up: its window 2 overlaps nothing, but 1 is no longer to be landed. What begins at the frontier "
        "goes in, in order, and nothing else of a live run does.",
    ),
    "what a stopped window leaves behind it is landed": Story(
        "A task runs out of budget half-way",
        "Windows 1 and 2 of a shard are written side by side, and 1 stops at a page edge. Were 2 landed, "
        "rows would be in the table before older ones of the same shard, and a reader who goes by the "
        "frontier would never see the rest of 1.",
    ),
    "lost windows are sent again with the others": Story(
        "Somebody was first with some of the windows",
        "A has windows of shards 0 and 1. B lands shard 0. A's try is refused; the ledger that A reads "
        "again has shard 0. Only the windows that still fit are sent again, with the same files.",
    ),
    "unknown is taken as failed, and nothing fences the second plan": Story(
        "The answer to a commit is lost",
        "A's landing is in the table, the connection broke before the answer came. Were that taken as a "
        "failure, A would send the same rows again. A loads the table and looks for the snapshot id of "
        "every try: it is there, so it landed.",
    ),
    "files are sent again although the schema moved": Story(
        "The table changes under a landing",
        "A writes files for the columns it knows. Somebody adds a column or another partition before A's "
        "try. The try is refused; the same files do not fit the table any more, so they are left and "
        "planned again.",
    ),
    "files are sent again although a sweep may have them": Story(
        "A laptop sleeps over the night",
        "A writes files and is paused for a day. The sweep deletes files that nobody refers to and that "
        "are old enough; before that it moves the table, so that A's try is refused. A sees how old its "
        "files are and does not send them again.",
    ),
    "children do not wait for their parents": Story(
        "A shard splits between two plans",
        "A holds the parent and has data left in it. B is given a child. B plans nothing of it until the "
        "ledger says that the parent is closed: the parent's rows are older.",
    ),
    "parents are closed before they are drained": Story(
        "A closing travels with a window that ends early",
        "The plan says: land the parent's last window, then close it. The task stops before the end. A "
        "closing is applied only if the frontier really is where the shard ends.",
    ),
    "gaps are not trimmed": Story(
        "Retention, told of too late",
        "A reads the ledger. B lands window 1. Retention removes it from the service. A surveys, sees "
        "that its frontier is gone, and plans a gap over what B has landed. Refused, A merges its gap "
        "into the new ledger: only what nobody has landed stays a gap.",
    ),
    "a backfill lands what has landed": Story(
        "A backfill meets a live run",
        "A backfill of an hour and a live run both want window 2. Whoever is first has it; the other one "
        "finds it in the ledger and leaves it out, and the live run's frontier jumps over it.",
    ),
    "one kind of answer is enough to write off": Story(
        "A list without a shard",
        "A node that was restored from a copy lists the shards of yesterday. A asks for the missing one by "
        "another kind of call, and its cursors are there: the shard is a suspect, and stays open. Only where "
        "both kinds agree the ledger remembers it, and a later run may believe it.",
    ),
    "a proof outlives its suspicion": Story(
        "Somebody was told better meanwhile",
        "A is told for the second time that a shard is gone, and plans its gap. B is told that it is there, "
        "and takes the suspicion back. Refused, A merges its gap into the new ledger: what its proof began "
        "with is not there any more, so gap and closing are dropped.",
    ),
    "what was written off is never opened again": Story(
        "The service comes to its senses",
        "Two kinds of answers were wrong for an hour, and a shard was closed as gone. It is listed again: "
        "the next run opens it, drops the gap that nobody knew the end of, and goes on at its frontier.",
    ),
    "an idle shard's receive time stands still": Story(
        "A shard that nobody writes to",
        "Its frontier is the cursor of `until` run after run. It has reached that time although it never "
        "landed a row; otherwise no hour would ever be complete.",
    ),
}
