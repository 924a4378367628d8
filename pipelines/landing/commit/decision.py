"""What a person decides, as data: what people are shown of it, what stands against it, and what does it.

About a table it is `operation.Planned`, which one loop commits. A verb that decides about something else has
a `Decision` of its own, and people and programs are told the same of it. Iceberg is not loaded here: a verb
that needs none starts without.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.cures import Call, Cure
from sls_io.values.errors import ConfigError

if TYPE_CHECKING:
    from pipelines.landing.spark.session import Engine
    from pipelines.landing.table.lake import Lake

View = TypeVar("View")


class NothingToDo(ConfigError):
    """The table is as it was asked for."""


class Tools(NamedTuple):
    """What work between a plan and its commit needs; `engine` only where the service is pulled."""

    clock: Clock = SYSTEM_CLOCK
    on_event: Callable[[str], None] = lambda name: None
    engine: "Engine | None" = None


class Finished(NamedTuple):
    """What was done: the new snapshot, if the table got one, and what it came to, with `more` for a program.
    `fails`: a part of it did not come about."""

    snapshot: int | None
    view: Any
    fails: bool = False
    more: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Decision(Generic[View]):
    """What a person decides.

    view      what people and programs are shown of it
    refusal   why it is not done as it was asked for, with the option that lifts it; "" when it is
    cures     what may be done in its place
    nothing   what to say where nothing is to be done
    does      the call that does it, where that is not the one that was typed
    """

    view: View
    refusal: str = ""
    cures: tuple[Cure, ...] = ()
    nothing: str = "there is nothing to change"
    does: Call | None = None

    @property
    def needed(self) -> bool:
        """Whether there is something to do."""
        return True

    def carry_out(self, lake: "Lake", tools: "Tools") -> Finished:
        """Do it."""
        raise NotImplementedError
