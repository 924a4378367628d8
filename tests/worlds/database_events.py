"""What a test does when SQLAlchemy does something, whichever engine it is of."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, event


@contextmanager
def on_event(name: str, act: Callable[..., Any]) -> Iterator[None]:
    """`act` is called with what SQLAlchemy tells at each event of this name."""
    event.listen(Engine, name, act)
    try:
        yield
    finally:
        event.remove(Engine, name, act)
