"""Which keys the properties of a catalog name: a provider's, or a pair that stands there.

A pair has three names in each of PyIceberg's families: `s3` for files, `rest` for what signs the requests of
a catalog, `client` for both. Who sets keys of one family must take away those of the others: PyIceberg looks
for `s3.access-key-id` and then for `client.access-key-id`, and takes the session token from wherever one is
left, and a token of other keys is refused by every store.
"""

from collections.abc import Mapping
from typing import get_args

from sls_io.values.errors import ConfigError, printable
from sls_io.values.settings import Credentials, provider_and_name
from sls_io.wire.keys import Keys

KEYS_PROPERTY = "client.credentials-provider"
KEYS_AHEAD_S = 900.0
"""Keys that end within this are asked for again: a file is opened and closed with the same."""
LENT_FOR = "keys-lent-for"
"""The table whose files want keys that the catalog lends for them; only where it does."""
SIGNING = "pipelines.landing.catalogs.signing"
"""Loaded where a catalog wants signatures: its libraries cost a fifth of a second."""
PAIR = ("access-key-id", "secret-access-key", "session-token")


def keys_of(properties: Mapping[str, str]) -> Credentials | None:
    """Where the keys come from, PROVIDER or PROVIDER:NAME as in `service.credentials`; None where they stand
    in the properties, or Amazon's chain finds them. ConfigError for any other word."""
    said = properties.get(KEYS_PROPERTY, "")
    if not said:
        return None
    try:
        return Credentials.model_validate(provider_and_name(said))
    except ValueError:
        known = ", ".join(get_args(Credentials.model_fields["provider"].annotation))
        raise ConfigError(
            f"{KEYS_PROPERTY} is {printable(said)!r}: expected one of {known}, with :NAME where it has one"
        ) from None


def with_keys(properties: Mapping[str, str], keys: Keys | None, family: str = "s3") -> dict[str, str]:
    """`properties` with `keys` instead of those that stand there, of whatever family.

    Worked example: `s3.access-key-id`, `s3.secret-access-key` and `rest.session-token` leave, `uri` stays,
    and keys without a token come as `s3.access-key-id` and `s3.secret-access-key` alone.
    """
    if keys is None:
        return dict(properties)
    kept = {k: v for k, v in properties.items() if k.partition(".")[2] not in PAIR}
    return {**kept, **pair(keys, family)}


def pair(keys: Keys, family: str) -> dict[str, str]:
    """`keys` as properties of a family: `s3` for files, `rest` for what signs the catalog's requests."""
    return {f"{family}.{name}": value for name, value in zip(PAIR, keys[:3], strict=True) if value}


def written(properties: Mapping[str, str], *families: str) -> Keys | None:
    """The pair that stands in the properties, of the first of these families that has one. A name without its
    secret is no pair: with `rest.access-key-id` alone and a whole pair of `s3` that of `s3` is taken."""
    for family in families:
        found = [properties.get(f"{family}.{name}", "") for name in PAIR]
        if found[0] and found[1]:
            return Keys(found[0], found[1], found[2])
    return None
