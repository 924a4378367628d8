"""Names and keys that the driver and the programs share."""

import os

PROJECT = "demo"
NAME = "sls.emu"
"""The made-up endpoint: no resolver knows it, the emulator is the clients' proxy."""

ID, SECRET = "ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_SECRET"
TOKEN = "ALIBABA_CLOUD_SECURITY_TOKEN"


def key_pair() -> tuple[str, str]:
    """The key pair of this process's environment. KeyError when it has none."""
    return os.environ[ID], os.environ[SECRET]
