"""A world that is made once in a session, and a copy of it for each test that begins in it.

Story: two hundred tests began with the same landings, each made anew, and most of what such a test cost was
its beginning. A folder is copied in milliseconds, and an emulator goes on from its folder where it stopped.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from sqlite3 import connect

from pipelines.landing.table.lake import Lake
from sls_io.emulator import Emulator, start
from tests.worlds.one_logstore import HOUR0_S, World, make_lake


@dataclass
class Mold:
    """`make` makes the world from an empty emulator, with its lake in the folder that it is given.

    A table names its files by whole paths, so each copy lies where the first one lay: there is one at a time.
    Its catalog has a name of its own: connections to the one before may still be open.
    """

    folder: Path
    make: Callable[[Emulator, Path], World]
    _made: World | None = field(default=None, init=False)
    _copies: int = field(default=0, init=False)

    @contextmanager
    def copy(self) -> Iterator[World]:
        """The world as it was made, with a service of its own."""
        place, kept = self.folder / "place", self.folder / "kept"
        if self._made is None:
            with start(place / "emulator", now=HOUR0_S + 60.0) as emulator:
                made = self.make(emulator, place / "lake")
            shutil.copytree(place, kept)
            self._made = made
        shutil.rmtree(place)
        shutil.copytree(kept, place)
        self._copies += 1
        catalog = place / "lake" / f"catalog{self._copies}.sqlite"
        with closing(connect(kept / "lake" / "catalog.sqlite")) as old, closing(connect(catalog)) as new:
            old.backup(new)
        lake = Lake({**make_lake(place / "lake").properties, "uri": f"sqlite:///{catalog}?timeout=30"})
        with start(place / "emulator") as emulator:
            service = {**self._made.logstore.service.model_dump(), "endpoint": emulator.endpoint}
            yield replace(
                self._made,
                emulator=emulator,
                lake=lake,
                logstore=self._made.changed(service=service),
                reports=[*self._made.reports],
            )
