"""JSON that a service answered, read so that nothing of it reaches an error."""

import json
import math
import re
from typing import Any

_WHOLE = re.compile(r"[0-9]{1,19}")
NOT_JSON = object()
"""What `parse_json` returns for a body that is none."""


def parse_json(body: bytes) -> Any:
    """The JSON in `body`, None when it is empty, NOT_JSON when it is something else.

    A value instead of an exception: json's own keeps the whole text, which may be logs. NaN and the
    infinities are no JSON, nor is what is nested deeper than anything that a service says.

    Python's own reader takes `NaN` and `1e999`, which becomes infinity. A field of either would pass a
    check of its type and fail, or compare as nothing, far from here.
    """
    if not body:
        return None
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_refused, parse_float=_finite)
    except (ValueError, RecursionError):
        return NOT_JSON


def whole_number(value: object) -> int:
    """The number in an answer's field: a JSON integer or its text, 0 to 2^63. Raises ValueError.

    Headers carry numbers as text, JSON as numbers: both are read here. Worked example: 7 and "7" are 7.
    True, 7.0, "-1", a digit of another script and 2^63 are refused; JSON's true would be 1 to Python, and a
    shard with that number would be read.
    """
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = int(value)
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError("not a whole number")
    return value


def _refused(_: str) -> float:
    raise ValueError("no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refused(text)
