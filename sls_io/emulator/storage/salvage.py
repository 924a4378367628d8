"""What `--salvage` does with a damaged data folder: keep every damaged file aside, serve what proves itself.

Each segment with damage is written anew with its whole records, in their order, and the old file
is renamed. The list is made anew from what is there. What that loses is said, file by file; after
it the folder loads like any other. Nothing is deleted.

Why a person must ask. A record behind damage is whole by its own sum, but what the damaged one said is
unknown: a checkpoint may be older than it was, a deleted logstore may be there again. For a demo that is
better than nothing; a test that went on unasked would prove something of a service that never was.
"""

import os
from mmap import mmap
from pathlib import Path

from sls_io.emulator.storage.segment import (
    FILE_HEAD_BYTES,
    LIST,
    Damaged,
    Ends,
    Mapped,
    Record,
    all_records,
    check_head,
    file_head,
    free_name,
    head_of,
    read_ends,
    record_head,
    set_aside,
    write_ends,
)

NUMBERS = 1 << 22
"""Segment numbers end here: a place in memory has that many bits for them."""


def salvage(folder: Path) -> list[str]:
    """Make `folder` one that loads. Returns what was lost or kept aside, a sentence each. OSError.

    In this order: what is known of the list; files that are no segments; segments under another's name; then
    each segment by itself. The list comes last, and says what is there by then.
    """
    notes: list[str] = []
    known: Ends | None = None
    try:
        known = read_ends(folder)
    except Damaged as damage:
        kept = set_aside(folder / LIST, "damaged")
        notes.append(f"{LIST} {damage}: it was kept as {kept.name}, and what was acknowledged is not known")
    numbers, strangers = _segments(folder)
    for name in strangers:
        kept = set_aside(folder / name, "unlisted")
        notes.append(f"{name} is no segment's name: it was renamed to {kept.name}")
    if known is None and not numbers:
        return notes
    ends = Ends(known.id if known else _id_of(folder, numbers))
    promised = {**known.closed, **({known.last: known.end} if known.last else {})} if known else {}
    numbers = _under_their_names(folder, numbers, ends.id, notes)
    for number in sorted(promised.keys() - set(numbers)):
        notes.append(f"{number:08}.seg is missing: the LogGroups in it are lost")
    for number in numbers:
        ends.closed[number] = _mended(
            folder / f"{number:08}.seg", number, ends.id, promised.get(number), notes
        )
    ends.last = max([*numbers, known.last if known else 0])
    ends.end = ends.closed.pop(ends.last, 0)
    if ends.last not in numbers:
        # Its number stays used: LogGroups of an older copy must never be found under it.
        ends.end = _write(folder / f"{ends.last:08}.seg", ends.last, ends.id, b"", [])
    os.close(write_ends(folder, ends))
    return notes


def _segments(folder: Path) -> tuple[list[int], list[str]]:
    """(numbers of the segments, names that look like one and are none)."""
    numbers, strangers = [], []
    for path in sorted(folder.glob("*.seg")):
        stem = path.name.removesuffix(".seg")
        plain = len(stem) == 8 and stem.isascii() and stem.isdigit() and int(stem) > 0
        if plain and path.is_file() and int(stem) < NUMBERS:
            numbers.append(int(stem))
        else:
            strangers.append(path.name)
    return numbers, strangers


def _id_of(folder: Path, numbers: list[int]) -> bytes:
    """The folder's id by the first segment that still says it, else a new one."""
    for number in numbers:
        if (head := head_of(folder / f"{number:08}.seg")) is not None:
            return head[0]
    return Ends().id


def _under_their_names(folder: Path, numbers: list[int], folder_id: bytes, notes: list[str]) -> list[int]:
    """Rename segments that stand under another's name; out of their order their records would be refused.

    All that stand wrong are renamed out of the way first, since two of them may have changed places.
    """
    there = set(numbers)
    moved = {}
    for number in numbers:
        path = folder / f"{number:08}.seg"
        head = head_of(path)
        if head is not None and head[0] == folder_id and head[1] != number and 0 < head[1] < NUMBERS:
            moved[number] = (path.rename(path.with_name(f"{path.name}.moved")), head[1])
            there.remove(number)
    for number, (path, own) in moved.items():
        target = folder / f"{own:08}.seg"
        if own in there:
            target = free_name(target, "unlisted")
        path.rename(target)
        there |= {own}
        notes.append(f"{number:08}.seg is segment {own} under another name: it was renamed to {target.name}")
    return sorted(there)


def _mended(path: Path, number: int, folder_id: bytes, promised: int | None, notes: list[str]) -> int:
    """Bytes of the segment once it holds nothing but whole records; it is left alone when it does.

    Whole is what the head and the whole records take. Where the file is longer, some of its bytes prove
    nothing; where it is shorter than was acknowledged, some are gone. Either is written anew, and named.

    Worked example: a segment of 1,000 bytes was acknowledged, and byte 500 has a flipped bit, in a record
    of [480, 560). The head and the whole records take 920 bytes: 80 prove nothing. A new file is written
    with those records in their order, the old one is renamed to `.damaged`, and both numbers are said.
    """
    with Mapped(path) as mapped:
        content, size = mapped.content, mapped.size
        why = ""
        try:
            check_head(content, folder_id, number)
        except Damaged as damage:
            why = str(damage)
        begin = FILE_HEAD_BYTES if head_of(path) is not None else 0
        found = list(all_records(content, begin, size))
        whole = FILE_HEAD_BYTES + sum(len(record_head(r.kind)) + r.length for r in found)
        if promised is not None and size < promised:
            why = why or f"is {promised - size} bytes shorter than what was acknowledged"
        if not why and whole == size:
            return size
        beside = path.with_name(path.name + ".new")
        written = _write(beside, number, folder_id, content, found)
    kept = set_aside(path, "damaged")
    beside.rename(path)
    why = why or f"is damaged: {size - whole} of its bytes prove nothing"
    notes.append(f"{path.name} {why}: its {len(found)} whole records are served, the old file is {kept.name}")
    return written


def _write(path: Path, number: int, folder_id: bytes, content: "bytes | mmap", found: list[Record]) -> int:
    """Write a segment of these records of `content`; returns its bytes."""
    with path.open("wb") as file:
        file.write(file_head(folder_id, number))
        for record in found:
            payload = content[record.begin : record.end]
            file.write(record_head(record.kind, payload))
            file.write(payload)
        return file.tell()
