"""The program's verbs as somebody types them: processes of their own, with `--json`."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any

from real.asked import Asked

_LEAVE_S = 20.0


class Refused(Exception):
    """A verb that did not do what it was asked for; the text is its own sentence."""


class Verbs:
    """Of the run's logstore. What they say for people goes to a log in the run's folder."""

    def __init__(self, asked: Asked) -> None:
        self._settings, self._log = str(asked.settings), asked.folder / "verbs.log"
        self._variables = {**os.environ, **asked.variables()}

    def __call__(self, *words: str, fails: bool = False) -> dict[str, Any]:
        """The document of a verb. Raises Refused where it ends with an error, unless it may (`fails`)."""
        command = [sys.executable, "-c", "from pipelines.cli.main import main; main()", *words]
        command += ["-l", self._settings, "--json"]
        # A session of its own: Ctrl-C reaches this process, which ends the verb and waits for it.
        with (
            self._log.open("ab") as log,
            subprocess.Popen(
                command,
                env=self._variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            ) as process,
        ):
            try:
                out, errors = process.communicate()
            except BaseException:
                _end(process)
                raise
            log.write(errors)
        with suppress(ValueError):
            document = json.loads(out)
            if process.returncode == 0 or fails:
                return dict(document)
        last = errors.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise Refused(f"{' '.join(words)} ended with {process.returncode}: {''.join(last)}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C, so that it takes away what it made; killed with all its children where it does not end."""
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=_LEAVE_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
