"""The demo's own project: what `init`, `new` and `stage` would make for the rows that it lands.

The rows of a file want a table with its columns. Where the demo is started in a project without the logstore
of generated rows, they want theirs. Everything lies below the demo's folder and goes with it.
"""

import re
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from itertools import islice
from pathlib import Path

from pipelines.cli.files.accesslog import generated
from pipelines.cli.files.lines import Log
from pipelines.cli.files.log_files import LogFile, parse_file
from pipelines.cli.files.packing import Counts
from pipelines.cli.init import write_project
from pipelines.cli.logstores import defs_of, known, project_root, resolve
from pipelines.cli.new import write
from pipelines.cli.stage import models, write_models
from pipelines.landing.first_file import Named
from pipelines.landing.suggestion import SAMPLE_LOGS, Suggested, suggested

GENERATED = "access_logs"
_FOLDER = "demo_project"


@contextmanager
def entered(
    home: Path, file: LogFile | None, *, seed: int, start: str
) -> Iterator[tuple[str, list[Suggested]]]:
    """Live in a project that has a logstore for these rows, by default the one that we are in; its name, and
    the columns that were made for it, none where they were declared before. `home` is the demo's folder."""
    if file is None and GENERATED in known(project_root()):
        yield GENERATED, []
        return
    sample: Iterator[Log] = (generated(seed, n, 0.0) for n in range(SAMPLE_LOGS))
    if file is not None:
        sample = islice(parse_file(file, Counts()), SAMPLE_LOGS)
    logs = [log.contents for log in sample]
    keys, name = suggested(logs), GENERATED if file is None else name_of(file.path)
    folder = home / _FOLDER
    write_project(folder)
    write(
        defs_of(folder) / name / "defs.yaml", Named.of(name), start, "The demo's first hour.", keys, len(logs)
    )
    with chdir(folder):
        write_models(models(resolve(name)))
        yield name, keys


def name_of(path: Path) -> str:
    """A logstore's name like the file's: the service wants 3 to 63 lower-case letters, digits and `_`."""
    stem = re.sub(r"[^a-z0-9]+", "_", path.name.partition(".")[0].lower()).strip("_")[:48]
    return stem if len(stem) >= 3 and not stem[0].isdigit() else f"logs_{stem}".strip("_")
