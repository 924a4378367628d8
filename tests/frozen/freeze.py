"""Writes what a release leaves on disk into one text file, for the releases after it to read.

    python tests/frozen/freeze.py tests/frozen/VERSION.json

The package of this checkout does it, by its own verbs, in a folder that it knows as /proc/self/cwd: files of
a table name one another by absolute paths, and a process that stands in a copy of the folder finds them
there. Made once a release, in its checkout, and kept as it is.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

HERE = "/proc/self/cwd"
NOW_S = 1_795_168_860
"""2026-11-20 10:01 UTC: a minute into an hour."""
HOUR_S = 3600
ENVIRONMENT = {
    "PYICEBERG_CATALOG__LAKE__TYPE": "sql",
    "PYICEBERG_CATALOG__LAKE__URI": f"sqlite:///{HERE}/catalog.db",
    "PYICEBERG_CATALOG__LAKE__WAREHOUSE": f"file://{HERE}/warehouse",
    "LEASES": f"sqlite:///{HERE}/leases.db",
    "ALIBABA_CLOUD_ACCESS_KEY_ID": "emulator-key",
    "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "emulator-secret",
}
LEFT_OUT = {"emulator/lock", "state/spark.log", "lines.json"}
PROGRAM = [sys.executable, "-c", "from pipelines.cli.main import main; main()"]
COLUMNS = "{n: long, status: int, price: 'decimal(9,2)'}"
SETTINGS = """type: pipelines.components.SlsLogstore
attributes:
  service: {{endpoint: "{{{{ env.SLS_ENDPOINT }}}}", project: frozen, logstore: {name}}}
  group: {{name: lake, holder: one}}
  table: bronze.{name}
  start: 2026-11-20-00:00
  columns: {columns}
"""


class Folder:
    """The folder, and a clock that only goes on."""

    def __init__(self, path: Path) -> None:
        self.path, self.now_s, self.port = path, NOW_S, "0"

    def call(self, *words: str, endpoint: str) -> dict[str, Any]:
        """The document that a verb prints."""
        done = subprocess.run(
            [*PROGRAM, *words, "--json"],
            cwd=self.path,
            env={**os.environ, **ENVIRONMENT, "SLS_ENDPOINT": endpoint, "SLS_LAKE_HOME": f"{HERE}/state"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def served(self, *calls: tuple[str, ...]) -> list[dict[str, Any]]:
        """What verbs say, one after another, of the service as it is at this hour."""
        with subprocess.Popen(
            [*PROGRAM, "emulator", "--port", self.port, "--data", "emulator", "--now", str(self.now_s)],
            cwd=self.path,
            env={**os.environ, **ENVIRONMENT, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            text=True,
        ) as service:
            assert service.stdout is not None
            try:
                endpoint = service.stdout.readline().split()[-1]
                # At the same address from then on: it is part of what a command is known by on a machine.
                self.port = endpoint.rpartition(":")[2]
                return [self.call(*words, endpoint=endpoint) for words in calls]
            finally:
                service.terminate()

    def unpack(self, files: dict[str, str]) -> None:
        """Write files as `packed` gave them."""
        for name, content in files.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(zlib.decompress(base64.b64decode(content)))

    def packed(self) -> dict[str, str]:
        """Each file by its path, compressed, in base64. Settings are the reader's own."""
        found = {}
        for path in sorted(self.path.rglob("*")):
            name = path.relative_to(self.path).as_posix()
            if path.is_file() and name not in LEFT_OUT and path.name != "defs.yaml":
                found[name] = base64.b64encode(zlib.compress(path.read_bytes(), 9)).decode()
        return found


def main(out: Path) -> None:
    """Two logstores: one held by the service's group, one by leases; each with some history."""
    with tempfile.TemporaryDirectory() as name:
        folder = Folder(Path(name))
        write(folder.path / "logs" / "defs.yaml", name="logs")
        leases = '{database: "env:LEASES"}'
        write(folder.path / "leased" / "defs.yaml", name="leased", coordinator=leases)
        logs, leased = ("-l", "logs/defs.yaml"), ("-l", "leased/defs.yaml")
        for hour in range(4):
            lines(folder.path / "lines.json", 40 * hour)
            load = ("load", "--file", "lines.json", "--format", "json", "--group-size", "7", "--create")
            folder.served(
                *((*load, "--shards", "2", *of) for of in (logs, leased)),
                *(("land", *of) for of in (logs, leased)),
            )
            folder.now_s += HOUR_S
        copy = ("checkpoints", "set", "--from", "ledger")
        stores = ("file:store.json", f"sql:sqlite:///{HERE}/store.db")
        folder.served(
            ("land", *logs),
            ("land", *leased),
            ("table", "undo", "--hour", "2026-11-20-11:00", *logs, "--execute"),
            ("table", "forget", "--where", "n < 5", *logs, "--execute"),
            ("shards", "pause", "1", *logs, "--execute"),
            *((*copy, "--to", store, *logs, "--execute") for store in stores),
        )
        asked = [(verb, of) for of in (logs, leased) for verb in ("verify", "windows")]
        answers = folder.served(*((verb, *of) for verb, of in asked))
        said = {
            f"{verb} {Path(of[1]).parent}": answer for (verb, of), answer in zip(asked, answers, strict=True)
        }
        frozen = {"now_s": folder.now_s, "said": said, "files": folder.packed()}
    out.write_text(json.dumps(frozen, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def write(path: Path, *, name: str, coordinator: str = "") -> None:
    """A logstore's settings."""
    path.parent.mkdir(parents=True, exist_ok=True)
    said = SETTINGS.format(columns=COLUMNS, name=name)
    path.write_text(said + (f"  coordinator: {coordinator}\n" if coordinator else ""), encoding="utf-8")


def lines(path: Path, begin: int) -> None:
    """Forty logs: declared keys, one of which is wrong now and then, and two that nobody declared."""
    logs = (
        {
            "n": str(n),
            "status": "broken" if n % 13 == 0 else str(200 + n % 3),
            "price": f"{n}.50",
            "path": f"/a/{n % 7}",
            "agent": "curl",
        }
        for n in range(begin, begin + 40)
    )
    path.write_text("".join(json.dumps(log) + "\n" for log in logs), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
