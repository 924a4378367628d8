"""Keys of the store for Spark's Java, which asks for them again before they end.

Story: keys of a role end within hours. A Connect server, or a long `dbt build`, had those of the moment at
which its settings were made, and from their end on the store refused it all. Amazon's library for Java knows
a program that gives keys: `credential_process` of a profile (its page "Process credentials"). This is that
program, and the profile that names it. Keys go over a pipe, and stand neither in settings nor in a file.

    python -m pipelines.landing.spark.store_keys PROVIDER [NAME]
"""

import json
import os
import shlex
import sys
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path

from sls_io.values.errors import SlsError
from sls_io.values.settings import Credentials
from sls_io.wire.credentials import resolve

PROVIDER_CLASS = "software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider"
_PROFILE = "sls-lake"
_SOURCE = Path(__file__).parents[3]
"""From where our packages are imported; asked nobody, since Java waits while this program loads."""


def ask_again(credentials: Credentials, folder: Path) -> dict[str, str]:
    """Variables by which Java finds the program, by a file in `folder`; set in this process, too, for the
    Java that it starts. The file names a provider and holds no key, so anybody may read it.

    `env` stands before the program because Amazon's library starts it with the environment of Java and in
    another folder: without the path our packages would not be found there.
    """
    path = folder / "aws-config"
    words = ["env", f"PYTHONPATH={_path()}", sys.executable, "-m", __name__, credentials.provider]
    line = shlex.join([*words, *filter(None, [credentials.name])])
    # Whole at once: a Java that runs may read it right now.
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_text(f"[profile {_PROFILE}]\ncredential_process = {line}\n", encoding="utf-8")
    fresh.replace(path)
    variables = {"AWS_CONFIG_FILE": str(path), "AWS_PROFILE": _PROFILE}
    os.environ.update(variables)
    return variables


def _path() -> str:
    """A program of Java starts in another folder."""
    return os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(_SOURCE)]))


def main() -> None:
    """The keys as Amazon's libraries want them, on standard output."""
    provider, name = [*sys.argv[1:], ""][:2]
    try:
        keys = resolve(Credentials.model_validate({"provider": provider, "name": name}))
    except SlsError as error:
        sys.exit(str(error))
    told = {"Version": 1, "AccessKeyId": keys.id, "SecretAccessKey": keys.secret}
    if keys.token:
        told["SessionToken"] = keys.token
    if isfinite(keys.expires_s):
        told["Expiration"] = datetime.fromtimestamp(keys.expires_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
