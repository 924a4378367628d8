"""A catalog whose database is away for a time."""

from pyiceberg.catalog.sql import SqlCatalog

from tests.worlds.one_logstore import World


class Outage:
    """The catalog's database is away while it is `down`: nobody can open or read it."""

    def __init__(self, world: World) -> None:
        self._world = world
        database = world.lake.sqlite_path
        assert database is not None
        self._database, self._away = database, database.with_suffix(".away")

    def begin(self) -> None:
        """Take it away, and the open connections with it."""
        catalog = self._world.lake.catalog()
        assert isinstance(catalog, SqlCatalog)
        catalog.engine.dispose()
        self._database.rename(self._away)
        self._database.mkdir()

    def end(self) -> None:
        """Bring it back; nothing when it is there."""
        if self._away.exists():
            self._database.rmdir()
            self._away.rename(self._database)
