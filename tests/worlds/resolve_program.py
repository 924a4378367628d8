"""Asks for keys and says in JSON lines what it got. The vendor's library reads its environment once.

python -m tests.worlds.resolve_program CREDENTIALS TIMES
"""

import json
import sys

from sls_io.values.errors import ConfigError
from sls_io.values.settings import Credentials
from sls_io.wire.credentials import resolve


def main(credentials: str, times: str) -> None:
    """Ask so many times, from the second on as after a refusal."""
    for number in range(int(times)):
        try:
            told = {"keys": resolve(Credentials.model_validate_json(credentials), refused=number > 0)}
        except ConfigError as error:
            sys.stdout.write(json.dumps({"error": str(error)}) + "\n")
            return
        sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
