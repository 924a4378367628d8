"""Code that a setting may name, and what it can do wrong: `tests.unit.custom_troubles:NAME` in tests.

Each is a function of any arguments. What it raises or answers holds SECRET, which stands for a log or a key.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import ptars
from google.protobuf import descriptor_pb2, descriptor_pool

from sls_io.values.errors import ConfigError

SECRET = "canary-4711"


class Unspeakable(Exception):
    """An error that cannot be put into words."""

    def __str__(self) -> str:
        raise RuntimeError(SECRET)

    __repr__ = __str__


class Terminated(BaseException):
    """What the handler of a signal raises, as Dagster's does."""


class _Faceless:
    """An answer that raises whatever it is asked."""

    def _asked(self, *_: object) -> Any:
        raise ValueError(SECRET)

    __class__ = property(_asked)
    __len__ = __eq__ = __iter__ = __str__ = __repr__ = __getattr__ = __bool__ = _asked
    __hash__ = None  # type: ignore[assignment]


def raising(error: Callable[[], BaseException]) -> Callable[..., Any]:
    """A function that raises while it handles another error."""

    def function(*arguments: object) -> Any:
        try:
            raise LookupError(SECRET)
        except LookupError:
            raise error() from ValueError(SECRET)

    return function


def panics(*arguments: object) -> Any:
    """A library in Rust gives up: of its own kind, and no Exception."""
    file = descriptor_pb2.FileDescriptorProto(name="canary.proto")
    pool = descriptor_pool.DescriptorPool()
    file.message_type.add(name="M").field.add(name="f", number=1, type=12, label=1)
    pool.Add(file)
    handler = ptars.HandlerPool([pool.FindFileByName(file.name)]).get_for_message(
        pool.FindMessageTypeByName("M")
    )
    return handler.list_to_record_batch([b"\x0a" + b"\xff" * 9 + b"\x01" + SECRET.encode()])


def goes_too_deep(*arguments: object) -> Any:
    """Recursion without an end."""
    return goes_too_deep(SECRET, *arguments)


def answers_a_riddle(*arguments: object) -> Any:
    """Nothing can be learned of it."""
    return _Faceless()


async def waits(*arguments: object) -> Any:
    """Runs only for who awaits it."""
    raise ValueError(SECRET)


def yields(*arguments: object) -> Iterator[Any]:
    """Runs only for who asks for its next."""
    yield SECRET


async def yields_later(*arguments: object) -> AsyncIterator[Any]:
    """Both of it."""
    yield SECRET


class _Awaited(_Faceless):
    """To be waited for, and says nothing else of itself."""

    def __await__(self) -> Iterator[Any]:
        raise ValueError(SECRET)


def hands_on(*arguments: object) -> Any:
    """As a function that starts another one for later, and gives what to wait for."""
    return _Awaited()


def hands_on_a_future(*arguments: object) -> Any:
    """What loops give."""
    loop = asyncio.new_event_loop()
    try:
        return loop.create_future()
    finally:
        loop.close()


def is_terminated(*arguments: object) -> Any:
    """Somebody ends the process meanwhile."""
    try:
        raise LookupError(SECRET)
    except LookupError:
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(10**9):  # the handler is called between two steps of this
            pass


def is_interrupted(*arguments: object) -> Any:
    """A person hits Ctrl-C meanwhile."""
    raise KeyboardInterrupt(SECRET)


value_error = raising(lambda: ValueError(SECRET))
config_error = raising(lambda: ConfigError(SECRET))
cancelled = raising(lambda: asyncio.CancelledError(SECRET))
generator_exit = raising(lambda: GeneratorExit(SECRET))
stop_iteration = raising(lambda: StopIteration(SECRET))
leaves = raising(lambda: SystemExit(SECRET))
unspeakable = raising(Unspeakable)
of_a_secret_name = raising(type(f"a log: {SECRET}", (BaseException,), {}))
group = raising(lambda: BaseExceptionGroup(SECRET, [SystemExit(SECRET)]))
warns = raising(lambda: DeprecationWarning(SECRET))

TROUBLES = {
    "value_error": "ValueError",
    "config_error": "ConfigError",
    "cancelled": "CancelledError",
    "generator_exit": "GeneratorExit",
    "stop_iteration": "StopIteration",
    "leaves": "SystemExit",
    "unspeakable": "Unspeakable",
    "of_a_secret_name": "type without a name",
    "group": "BaseExceptionGroup",
    "warns": "DeprecationWarning",
    "panics": "PanicException",
    "goes_too_deep": "RecursionError",
}
"""Name of the function -> the type of what it raises."""
NOT_DONE = {
    "waits": "coroutine",
    "yields": "generator",
    "yields_later": "async_generator",
    "hands_on": "_Awaited",
    "hands_on_a_future": "Future",
}
"""Name of the function -> what its answer is."""

terminated = SimpleNamespace(on_assigned=print, before_release=is_terminated)
riddle = _Faceless()


def __getattr__(name: str) -> Any:
    """`hooks_of_NAME` has NAME as a hook; a look for `unfindable` raises."""
    if name == "unfindable":
        raise GeneratorExit(SECRET)
    if not name.startswith("hooks_of_"):
        raise AttributeError(name)
    return SimpleNamespace(on_assigned=globals()[name.removeprefix("hooks_of_")])
