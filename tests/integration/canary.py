"""Texts that must never be found anywhere, and the provider that hands them to whoever signs.

Executors import this module by name, as they would a provider of somebody's own.
"""

ACCESS_ID = "canary-id-7b1e9d"
ACCESS_SECRET = "canary-secret-d04c52aa"
TOKEN = "canary-token-91f6e3"
VALUE = "canary-value-5ac8b7"

SECRETS = (ACCESS_ID, ACCESS_SECRET, TOKEN)
WRONG_SECRET = "canary-wrong-secret-33e1"


def triple() -> tuple[str, str, str]:
    """The key pair and token, as a credentials provider returns them."""
    return ACCESS_ID, ACCESS_SECRET, TOKEN


def wrong() -> tuple[str, str, str]:
    """A pair the service does not know."""
    return ACCESS_ID, WRONG_SECRET, TOKEN
