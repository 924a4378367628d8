"""Makes the class archive of a landing's Java (`archive.py`): `make setup` runs it.

    python -m pipelines.landing.spark.record

It starts Spark as a landing does, runs a job, and lets Java write down the classes at its end, which takes
about ten seconds; where the archive is there, nothing is started. Java writes to a file of this process's
own, which gets its name once it is whole: two of these at once do not disturb one another, and a run never
sees half of one. A folder that cannot be written is said, and does no harm: runs start without.

Why not in the first run that misses it: writing takes Java ten seconds at its end, and in a container that
is thrown away after each run every run would pay that, for nobody.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from pipelines.landing.spark import archive
from pipelines.landing.spark.java import OPTIONS_SETTING, has_own_options, require_java, spark_home
from pipelines.landing.spark.session import Engine
from pipelines.landing.umask import keep_others_out

_DAY_S = 24 * 3600
_TASKS = 2
_PART = ".part"


def recorded(folder: Path) -> tuple[Path | None, str]:
    """The archive in `folder`, made when it is not there; else None, and why there is none."""
    java = require_java()
    if there := archive.found(java, folder):
        return there, ""
    if " " in str(folder):
        return None, f"the path {folder} has a space, which Java's options cannot carry"
    if has_own_options({}):
        return None, "Java's options are set by you, and yours are taken alone"
    key = archive.key_of(java, spark_home() / "jars")
    part = folder / f"{key}.{os.getpid()}{_PART}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part.touch()
        part.unlink()
    except OSError as error:
        return None, f"{folder} cannot be written: {error.strerror}"
    try:
        engine = Engine(conf={OPTIONS_SETTING: archive.options_to_record(part)})
        try:
            engine.run(_TASKS, _rows, tag="sls-lake-record")
        finally:
            engine.stop(wait=True)
        if not part.is_file():
            return None, f"Java wrote none; is there room in {folder}?"
        path = archive.named(key, part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    _sweep(folder, path)
    return path, ""


def _rows(numbers: Iterable[int]) -> Iterator[str]:
    yield from map(str, numbers)


def _sweep(folder: Path, newest: Path) -> None:
    """Remove older archives, of another Java or of other jars, and what a killed recording left a day ago.

    Story: two record at once, both are done, then both sweep. Would each remove what is not its own, none
    would stay; so only what is older goes.
    """
    made_s = newest.stat().st_mtime
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            age_s = made_s - path.stat().st_mtime
            if (path.suffix == archive.SUFFIX and age_s > 0) or (path.suffix == _PART and age_s > _DAY_S):
                path.unlink()


def main() -> None:
    """Make it, and say so; nothing is said of one that is there. What Spark says goes to a file beside it."""
    folder, shown = archive.place(), os.dup(1)
    before = set(folder.glob(f"*{archive.SUFFIX}"))
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "record.log").open("wb") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
    path, why = recorded(folder)
    if path not in before:
        text = f"made {path}" if path else f"none is made: {why}"
        os.write(shown, f"class archive of Java, which makes a cold run cheaper: {text}\n".encode())


if __name__ == "__main__":
    keep_others_out()
    main()
