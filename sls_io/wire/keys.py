"""A key pair, as whoever signs has it. It is made where it is used, and never travels."""

from typing import NamedTuple


class Keys(NamedTuple):
    """`token` is "" for keys of a user; `expires_s` (unix seconds) is when they end, or are to be asked for
    again, where that is known. `place` is where they were found, in the words of the vendor's chain."""

    id: str
    secret: str
    token: str = ""
    expires_s: float = float("inf")
    place: str = ""


NO_KEYS = Keys("", "")
"""In the place of those that stand somewhere and are not meant."""
