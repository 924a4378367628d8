"""A project of one `SlsProject` file over a real emulator, loaded as a code server does."""

from dataclasses import dataclass
from pathlib import Path

from sls_io.emulator import Emulator
from sls_io.wire.client import SlsClient
from tests.worlds.one_logstore import PROJECT, patient

_FILE = """type: pipelines.components.SlsProject
attributes:
  service: {{endpoint: "{endpoint}", project: {project}, tries_max: 1}}
  logstores: [shop-*]
  defaults:
    group: {{name: lake, timeout_s: 30, heartbeat_s: 1, patience_s: 5}}
    table: bronze.{{logstore}}
    columns: {{n: long, status: int}}
"""


@dataclass(frozen=True)
class Followed:
    """`package` is the project's module, `folder` that of the file and of its list."""

    emulator: Emulator
    package: Path

    @property
    def folder(self) -> Path:
        return self.package / "defs" / "shop"

    def make(self, *names: str) -> None:
        """Logstores of the service."""
        with SlsClient(patient(self.emulator, names[0])) as client:
            for name in names:
                client.transport.create_logstore(PROJECT, name, ttl=30, shard_count=1)

    def delete(self, name: str) -> None:
        with SlsClient(patient(self.emulator, name)) as client:
            client.transport.delete_logstore(PROJECT, name)


def followed(emulator: Emulator, root: Path, module: str, *, sensors: str = "") -> Followed:
    """A project in `root` whose package is called `module`: Python loads one of a name once."""
    package = root / module
    (package / "defs" / "shop").mkdir(parents=True)
    for folder in (package, package / "defs"):
        (folder / "__init__.py").touch()
    (root / "pyproject.toml").write_text(f'[tool.dg.project]\nroot_module = "{module}"\n')
    text = _FILE.format(endpoint=emulator.endpoint, project=PROJECT)
    (package / "defs" / "shop" / "defs.yaml").write_text(text + sensors)
    return Followed(emulator, package)
