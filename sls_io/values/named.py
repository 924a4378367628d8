"""Somebody's own code, named in a setting as `package.module:name`: loaded here, and called here alone.

What such code raises may hold what it was reading, a log or a key, in its text and in its trace. It may be
anything: the panic of a library in Rust, the CancelledError of a loop, an exit. So nothing of it goes on but
the name of its type, in a CodeFailed that chains nothing. What it answers may run code, too, once somebody
looks at it. So that happens in the same place, by a function `reads` that makes a value of ours of it.

A person who ends the process is heard all the same: Ctrl-C, and what the process's own handler of SIGINT or
SIGTERM raises. Story: a run was terminated in Dagster while it waited for a hook. Dagster's handler raises in
the middle of the hook; called the hook's failure, that was said in a warning, and the run went on.
"""

import importlib
import signal
from collections.abc import Callable
from dataclasses import dataclass
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, TypeVar

from sls_io.values.errors import CodeFailed

Value = TypeVar("Value")
_ENDED = (CoroutineType, GeneratorType)
"""What Python warns of where it is never begun."""
_PROMISES = (AsyncGeneratorType, *_ENDED)


@dataclass(frozen=True)
class Unusable:
    """An answer that cannot be used: `what` says why, with nothing of the answer in it."""

    what: str


def load(setting: str, path: str, kind: str = "a function") -> Any:
    """What `path` names, also a module of a package; `kind` is what to write there, in words.

    Raises CodeFailed that names the setting and the cure.
    """
    module, _, name = path.partition(":")

    def found() -> Any:
        if not name:
            raise ImportError
        place = importlib.import_module(module)
        if not hasattr(place, name) and hasattr(place, "__path__"):
            # A package knows a module of its own only once somebody has imported that.
            importlib.import_module(f"{module}.{name}")
        return getattr(place, name)

    cure = f"name {kind} as module:{kind.rsplit(maxsplit=1)[-1]}, one that this Python can import"
    return attempted(setting, path, found, cure=cure)


def called(
    setting: str,
    path: str,
    function: Callable[..., Any],
    *arguments: Any,
    reads: Callable[[Any], Value | Unusable],
    cure: str = "",
) -> Value:
    """What `reads` makes of the answer of `function`, which `path` of `setting` names.

    Arguments that must not change are copies. Raises as `attempted`, also where nothing was done yet: a
    function with `async` or `yield` in it answers at once, and runs only when somebody waits for it; so does
    one that hands on what another such function gave it, a task or a future.
    """

    def work() -> Value | Unusable:
        answer = function(*arguments)
        if issubclass(type(answer), _PROMISES) or _is_awaitable(answer):
            if issubclass(type(answer), _ENDED):
                answer.close()
            return Unusable(
                f"gave a {type_name(answer)}, and nothing was done: name one without async or yield"
            )
        return reads(answer)

    return attempted(setting, path, work, cure=cure)


def attempted(setting: str, path: str, work: Callable[[], Value | Unusable], *, cure: str = "") -> Value:
    """What `work` gives, which runs code that `path` of `setting` names.

    Raises CodeFailed where it raises or is Unusable, with the `cure`; what ends the process goes on as it is.
    """
    ended: BaseException | None = None
    refused, kind = "", ""
    try:
        answer = work()
        if type(answer) is not Unusable:
            return answer  # type: ignore[return-value]
        refused = answer.what
    except KeyboardInterrupt:
        ended = KeyboardInterrupt()
    except BaseException as error:
        kind = type_name(error)
        if _of_a_signal(error):
            ended = error
    # Behind the `except`, not in it: there Python notes what is handled as the context of what is raised, and
    # `from None` hides that from a trace alone.
    if ended is not None:
        ended.__context__ = ended.__cause__ = None
        raise ended.with_traceback(None)
    raise CodeFailed(setting, path, refused or f"failed ({kind})", kind=kind, cure=cure)


def type_name(value: object) -> str:
    """Name of the type of somebody's value, by no code of theirs."""
    name = type.__dict__["__name__"].__get__(type(value))
    return str(name) if name.isidentifier() else "type without a name"


def _is_awaitable(value: object) -> bool:
    """Whether Python would let somebody `await` it, by no code of theirs (`isinstance` asks `__class__`).

    The first class in the order of inheritance decides, and None there switches it off, as Python has it.
    """
    for each in type.__dict__["__mro__"].__get__(type(value)):
        if "__await__" in (own := type.__dict__["__dict__"].__get__(each)):
            return own["__await__"] is not None
    return False


def _of_a_signal(error: BaseException) -> bool:
    """Whether this process's handler of a signal that ends it has raised this, not what it interrupted.

    The type says nothing: a handler may raise any, and a hook the same. So it is looked where it was raised:
    the innermost frame of its trace is that of the handler, or it is not.
    """
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    handlers = (signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM))
    return at is not None and at.tb_frame.f_code in [getattr(h, "__code__", None) for h in handlers]
