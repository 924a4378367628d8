"""Keys: where they are found, when they are asked for again, and how their end is recognised."""

import json
from pathlib import Path

import pytest

from sls_io.values.clock import ManualClock
from sls_io.values.errors import ConfigError, ServiceError
from sls_io.values.settings import Credentials
from sls_io.wire.credentials import resolve
from sls_io.wire.keys import Keys
from tests.unit.scripted_service import Reply, error, talking

CANARY = "canary-4711-secret"
SHARDS = "/logstores/logs/shards"


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", "unit-key-id")
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "unit-key-secret")
    monkeypatch.delenv("ALIBABA_CLOUD_SECURITY_TOKEN", raising=False)


def test_keys_that_were_renewed_meanwhile_are_picked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with talking(error(401, "SecurityTokenExpired"), Reply()) as (t, server):
        monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", "fresh-id")
        t.exchange("GET", SHARDS)
        assert t.retries == {"SecurityTokenExpired": 1}
    assert server.seen[1].headers["authorization"].startswith("LOG fresh-id:")


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, "SecurityTokenExpired"),
        (403, "SecurityToken.Expired"),
        (400, "SecurityTokenExpired"),
        (403, "InvalidAccessKeyId.NotFound"),
        (404, "InvalidAccessKeyId"),
        (403, "InvalidSecurityToken.Expired"),
        (403, "Unauthorized"),
        (401, "SomethingNew"),
    ],
)
def test_keys_that_are_refused_are_known_by_their_code_whatever_the_status(
    status: int, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with talking(error(status, code), Reply()) as (t, server):
        monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", "fresh-id")
        t.exchange("GET", SHARDS)
    assert server.seen[1].headers["authorization"].startswith("LOG fresh-id:")


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (403, "SecurityTokenExpired", f"token {CANARY}"),
        (401, "Unauthorized", f"The security token you provided has expired. {CANARY}"),
    ],
)
def test_a_token_that_ended_in_the_environment_says_that_environments_stay(
    status: int, code: str, said: str
) -> None:
    ended = error(status, code, said)
    with talking(ended) as (t, server), pytest.raises(ServiceError, match="name a profile") as caught:
        t.exchange("GET", SHARDS)
    assert len(server.seen) == 1 and CANARY not in str(caught.value)
    assert "the security token has ended" in str(caught.value)


def test_a_denial_by_ram_names_action_and_resource_and_the_statement_that_is_lacking() -> None:
    resource = "acs:log:cn-hangzhou:1234:project/p/logstore/logs/consumergroup/g"
    denied = error(
        401, "Unauthorized", f"denied by sts or ram, action: log:ConsumerGroupHeartBeat, resource: {resource}"
    )
    with talking(denied) as (t, server), pytest.raises(ServiceError) as caught:
        t.exchange("GET", SHARDS)
    assert len(server.seen) == 1
    assert f"RAM does not allow this key log:ConsumerGroupHeartBeat on {resource}" in str(caught.value)
    said = str(caught.value).partition("lacks the statement ")[2]
    assert json.loads(said) == {
        "Effect": "Allow",
        "Action": "log:ConsumerGroupHeartBeat",
        "Resource": resource,
    }


def test_of_a_refusal_that_names_no_action_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", CANARY)
    refused = error(401, "Unauthorized", f"action: {CANARY}, resource: {CANARY}")
    with talking(refused) as (t, _), pytest.raises(ServiceError) as caught:
        t.exchange("GET", SHARDS)
    assert CANARY not in str(caught.value)


def test_keys_are_asked_for_again_before_they_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    clock = ManualClock()

    def write(number: int, ends_s: float) -> None:
        profile = {"name": "p", "access_key_id": f"id-{number}", "access_key_secret": "s", "sts_token": "t"}
        path = tmp_path / ".aliyun" / "config.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"profiles": [{**profile, "sts_expiration": ends_s}]}))

    def signer(place: int) -> str:
        return server.seen[place].headers["authorization"].split(":")[0]

    write(1, clock.now() + 3600)
    profile = Credentials(provider="profile", name="p")
    with talking(*[Reply()] * 5, clock=clock, credentials=profile) as (t, server):
        write(2, clock.now() + 7200)
        t.exchange("GET", SHARDS)
        assert signer(0) == "LOG id-1"
        clock.sleep(3600 - 60)
        t.exchange("GET", SHARDS)
        assert signer(1) == "LOG id-2"
        write(3, clock.now() + 7200)
        clock.sleep(3600)
        (tmp_path / ".aliyun" / "config.json").write_text("half a fi")
        t.exchange("GET", SHARDS)
        assert signer(2) == "LOG id-2", "a provider that fails leaves keys that are still good"


@pytest.mark.parametrize(
    ("value", "ends_s"),
    [
        (("i", "s", "t"), float("inf")),
        (("i", "s", "t", None), float("inf")),
        (("i", "s", "t", 1_790_000_000), 1_790_000_000.0),
        (("i", "s", "t", "2026-09-21T14:13:20Z"), 1_790_000_000.0),
        (("i", "s", "t", "2026-09-21T22:13:20+08:00"), 1_790_000_000.0),
    ],
)
def test_a_function_may_say_when_its_keys_end(
    value: tuple[object, ...], ends_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"key_place_{abs(hash(value))}"
    (tmp_path / f"{name}.py").write_text(f"def find(): return {value!r}")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert resolve(Credentials(provider="import", name=f"{name}:find")).expires_s == ends_s


@pytest.mark.parametrize(
    "body",
    [
        "return ('i', 's', 't', '2026-09-21T14:13:20')",
        "return ('i', 's', 't', 'soon')",
        "return ('i', 's')",
        "return None",
        "raise RuntimeError('secret-canary')",
        "raise OSError('secret-canary')",
        "return {}['secret-canary']",
    ],
)
def test_a_function_that_gives_no_keys_is_named_and_what_it_said_is_not(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"bad_place_{abs(hash(body))}"
    (tmp_path / f"{name}.py").write_text(f"def find():\n    {body}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match=name) as caught:
        resolve(Credentials(provider="import", name=f"{name}:find"))
    assert "canary" not in str(caught.value)


def test_missing_keys_name_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET")
    with pytest.raises(ConfigError, match="ALIBABA_CLOUD_ACCESS_KEY_SECRET"):
        resolve(Credentials())


def test_keys_come_from_a_profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=r"config\.json cannot be read"):
        resolve(Credentials(provider="profile"))
    (tmp_path / ".aliyun").mkdir()
    path = tmp_path / ".aliyun" / "config.json"
    path.write_text(json.dumps({"profiles": [{"name": "p", "access_key_id": "a", "access_key_secret": "b"}]}))
    assert resolve(Credentials(provider="profile", name="p")) == Keys("a", "b")
    with pytest.raises(ConfigError, match="'other'"):
        resolve(Credentials(provider="profile", name="other"))
    path.write_text(CANARY)
    with pytest.raises(ConfigError) as caught:
        resolve(Credentials(provider="profile"))
    assert CANARY not in str(caught.value)


def test_keys_come_from_a_function(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "key_place.py").write_text("def find(): return ('a', 'b', None)\ndef bad(): return 'abc'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert resolve(Credentials(provider="import", name="key_place:find")) == Keys("a", "b")
    for path in ("key_place:bad", "key_place:none", "no_such_module_here:find"):
        with pytest.raises(ConfigError):
            resolve(Credentials(provider="import", name=path))


PROVIDERS: dict[str, tuple[str, str]] = {
    "exits": ("raise SystemExit(3)", "failed (SystemExit)"),
    "exits well": ("raise SystemExit(0)", "failed (SystemExit)"),
    "closes": ("raise GeneratorExit", "failed (GeneratorExit)"),
    "its own": ("raise type('Own', (BaseException,), {})('canary-4711-secret')", "failed (Own)"),
    "fails": ("raise ValueError('canary-4711-secret')", "failed (ValueError)"),
    "nothing": ("return None", "gave no keys: let it return (id, secret, token or '')"),
    "a text": ("return 'canary-4711-secret'", "gave no keys: let it return (id, secret, token or '')"),
    "bytes": ("return b'id', b'canary-4711-secret', None", "gave keys that are no texts"),
    "numbers": ("return 1, 2, 3", "gave keys that are no texts"),
    "no truth": ("import numpy; return numpy.arange(3), 's', ''", "gave keys that are no texts"),
    "an end of no number": ("return 'i', 's', '', float('nan')", "when the keys end"),
    "an end that is too far": ("return 'i', 's', '', 10 ** 400", "when the keys end"),
    "an end without a zone": ("return 'i', 's', '', '2026-11-20T07:00:00'", "when the keys end"),
    "empty": ("return '', '', ''", "no key pair"),
}


def provider(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch, *, at_import: str = "") -> Credentials:
    """Credentials that call a function with this body, of a module of its own."""
    name = f"provider_{abs(hash((body, at_import)))}"
    (folder / f"{name}.py").write_text(f"{at_import}\ndef keys():\n    {body}\n")
    monkeypatch.syspath_prepend(str(folder))
    return Credentials(provider="import", name=f"{name}:keys")


@pytest.mark.parametrize("case", PROVIDERS)
def test_whatever_a_function_for_keys_does_is_an_error_that_names_the_setting(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, said = PROVIDERS[case]
    credentials = provider(tmp_path, body, monkeypatch)
    with pytest.raises(ConfigError) as caught:
        resolve(credentials)
    assert said in str(caught.value) and credentials.name in str(caught.value)
    assert CANARY not in str(caught.value) and caught.value.__cause__ is None


def test_a_module_for_keys_that_exits_is_an_error_that_names_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = provider(tmp_path, "return 'i', 's', ''", monkeypatch, at_import="raise SystemExit")
    with pytest.raises(ConfigError, match=r"failed \(SystemExit\): name a function as module:function"):
        resolve(credentials)


def test_ctrl_c_in_a_function_for_keys_stays_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = provider(tmp_path, "raise KeyboardInterrupt", monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        resolve(credentials)


def test_a_profile_whose_end_is_no_time_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".aliyun"
    folder.mkdir()
    for end in ("1" + "0" * 400, "NaN", '"soon"', "[]", "true"):
        (folder / "config.json").write_text(f'{{"profiles": [{{"name": "p", "sts_expiration": {end}}}]}}')
        with pytest.raises(ConfigError, match=r"config\.json is not the command line tool's JSON"):
            resolve(Credentials(provider="profile", name="p"))
