"""Other people's code, wherever a setting names it: whatever it does, its type is told, nothing it said."""

import signal
import traceback
from collections.abc import Callable, Iterator
from types import FrameType

import pyarrow as pa
import pytest

from pipelines.landing.run.hooks import Hooks
from pipelines.landing.table.contract import Contract
from pipelines.landing.transform import Transform
from sls_io.coordination.assignors import assigned, named
from sls_io.values.errors import CodeFailed, ConfigError
from sls_io.values.named import Unusable, attempted, called, load
from sls_io.values.settings import Credentials
from sls_io.wire.credentials import resolve
from tests.unit import custom_troubles as troubles
from tests.unit.custom_troubles import NOT_DONE, SECRET, TROUBLES
from tests.worlds.pages import declared, decode

MODULE = "tests.unit.custom_troubles:"
BATCH = pa.RecordBatch.from_pydict({"__shard__": pa.array([3], pa.int32()), "text": pa.array([SECRET])})


def _transformed(name: str) -> None:
    Transform(MODULE + name).of(BATCH, 3)


def _hooked(name: str) -> None:
    Hooks("shop", f"{MODULE}hooks_of_{name}", lambda _: None).assigned(frozenset({3}))


def _keyed(name: str) -> None:
    resolve(Credentials(provider="import", name=MODULE + name))


def _shared(name: str) -> None:
    assigned(named(MODULE + name), ["a", "b"], {0: 1}, {})


CALLERS: dict[str, tuple[Callable[[str], None], str]] = {
    "transform": (_transformed, "transform"),
    "hooks": (_hooked, "the hook on_assigned of"),
    "credentials": (_keyed, "credentials.name"),
    "assignor": (_shared, "assignor"),
}
caller = pytest.mark.parametrize("caller", CALLERS)


def failure_of(work: Callable[[], object]) -> ConfigError:
    """What `work` raises, which must have nothing of the secret in it, nor lead to whoever has it."""
    with pytest.raises(ConfigError) as told:
        work()
    error: BaseException | None = told.value
    while error is not None:
        assert isinstance(error, ConfigError), "what the code raised hangs on to it"
        assert error.__cause__ is None and SECRET not in repr(vars(error))
        error = error.__context__
    assert SECRET not in "".join(traceback.format_exception(told.value))
    return told.value


@caller
@pytest.mark.parametrize("name", TROUBLES)
def test_whatever_code_raises_its_setting_path_and_type_are_told_and_nothing_it_said(
    caller: str, name: str
) -> None:
    call, setting = CALLERS[caller]
    text = str(failure_of(lambda: call(name)))
    assert text.startswith(f"{setting} '{MODULE}") and f"{name}' failed ({TROUBLES[name]})" in text


@caller
@pytest.mark.parametrize("name", NOT_DONE)
def test_code_that_only_promises_to_run_is_refused_and_not_taken_for_done(caller: str, name: str) -> None:
    call, setting = CALLERS[caller]
    text = str(failure_of(lambda: call(name)))
    assert text.startswith(setting) and f"gave a {NOT_DONE[name]}, and nothing was done" in text


@pytest.mark.parametrize("caller", sorted({*CALLERS} - {"hooks"}))
def test_an_answer_that_raises_at_every_look_is_refused_without_a_word_of_it(caller: str) -> None:
    call, setting = CALLERS[caller]
    assert str(failure_of(lambda: call("answers_a_riddle"))).startswith(
        f"{setting} '{MODULE}answers_a_riddle'"
    )


@pytest.mark.parametrize("name", TROUBLES)
def test_a_decoder_that_raises_anything_costs_its_value_and_no_other(name: str) -> None:
    found = decode(declared(f"custom({MODULE}{name}, string)"), [("s", b"a")], [("t", b"b")])
    assert [row["__error__"] for row in found] == [f"s is not custom({MODULE}{name}, string)", None]
    assert (found[0]["__rest__"], found[0]["s"], found[1]["__rest__"]) == ({"s": "a"}, None, {"t": "b"})


@pytest.mark.parametrize("name", NOT_DONE)
def test_a_decoder_that_only_promises_to_run_is_a_setting_to_mend(name: str) -> None:
    one = declared(f"custom({MODULE}{name}, string)")
    assert f"gave a {NOT_DONE[name]}" in str(failure_of(lambda: decode(one, [("s", b"a")])))


def test_a_decoder_whose_answer_raises_at_every_look_is_a_setting_to_mend_as_with_any_other_object() -> None:
    one = declared(f"custom({MODULE}answers_a_riddle, string)")
    assert "answered _Faceless: let it" in str(failure_of(lambda: decode(one, [("s", b"a")])))


@pytest.mark.parametrize(
    "work",
    [
        lambda: Contract.from_columns({"s": f"custom({MODULE}unfindable, string)"}),
        lambda: Transform(f"{MODULE}unfindable"),
        lambda: Hooks("shop", f"{MODULE}unfindable", lambda _: None),
        lambda: named(f"{MODULE}unfindable"),
        lambda: resolve(Credentials(provider="import", name=f"{MODULE}unfindable")),
    ],
    ids=["decoder", "transform", "hooks", "assignor", "credentials"],
)
def test_code_that_cannot_be_loaded_is_named_whatever_the_look_for_it_raises(
    work: Callable[[], object],
) -> None:
    text = str(failure_of(work))
    assert f"'{MODULE}unfindable' failed (GeneratorExit): name a" in text


def test_an_object_whose_hooks_cannot_be_looked_at_is_named() -> None:
    told = failure_of(lambda: Hooks("shop", f"{MODULE}riddle", lambda _: None))
    assert str(told) == f"hooks '{MODULE}riddle' failed (ValueError)"


@caller
def test_ctrl_c_goes_through_and_takes_no_text_along(caller: str) -> None:
    with pytest.raises(KeyboardInterrupt) as told:
        CALLERS[caller][0]("is_interrupted")
    assert told.value.args == () and told.value.__context__ is None


@pytest.fixture
def terminable() -> Iterator[None]:
    """SIGTERM raises, as it does in a run of Dagster's."""

    def handler(number: int, frame: FrameType | None) -> None:
        raise troubles.Terminated

    before = signal.signal(signal.SIGTERM, handler)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_run_that_is_terminated_in_a_hook_ends_and_the_hook_is_not_blamed(terminable: None) -> None:
    said: list[str] = []
    hooks = Hooks("shop", f"{MODULE}terminated", said.append)
    hooks.assigned(frozenset({3}))
    with pytest.raises(troubles.Terminated) as told:
        hooks.before_release(landed=True)
    assert said == [] and told.value.__context__ is None


def test_the_same_error_raised_by_the_code_itself_is_its_failure(terminable: None) -> None:
    def raises() -> object:
        raise troubles.Terminated(SECRET)

    told = failure_of(lambda: called("hooks", "a:b", raises, reads=lambda _: None))
    assert str(told) == "hooks 'a:b' failed (Terminated)"


def test_what_is_refused_has_no_kind_and_what_was_raised_has_one() -> None:
    with pytest.raises(CodeFailed) as told:
        attempted("transform", "a:b", lambda: Unusable("gave nothing"), cure="give something")
    assert (str(told.value), told.value.kind) == ("transform 'a:b' gave nothing: give something", "")
    with pytest.raises(CodeFailed) as told:
        load("transform", "no.such.module:f")
    assert (told.value.kind, told.value.path) == ("ModuleNotFoundError", "no.such.module:f")
