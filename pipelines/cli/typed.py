"""Values of options and arguments that a function reads from the text that was typed."""

from collections.abc import Callable
from typing import TypeVar, cast

import click

from sls_io.values.errors import ConfigError

Value = TypeVar("Value")


class Typed(click.ParamType[Value]):
    """What `read` makes of the text, called `name` in a verb's help. Its ConfigError is said as a wrong value
    of the option."""

    def __init__(self, name: str, read: Callable[[str], Value]) -> None:
        self.name, self._read = name, read

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Value:
        """Itself where it is no text: a default."""
        if not isinstance(value, str):
            return cast(Value, value)
        try:
            return self._read(value)
        except ConfigError as error:
            self.fail(str(error), param, ctx)
