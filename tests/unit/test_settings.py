"""Limits of the service side, their relations, and endpoints that must not be reached."""

import json
import pickle
import re

import pytest
from pydantic import ValidationError

from sls_io.values.settings import Budget, Coordination, Credentials, Group, Service, is_loopback

HOST = "cn-hangzhou.log.aliyuncs.com"


def service(**changed: object) -> Service:
    """A valid service with some settings changed."""
    plain: dict[str, object] = {"endpoint": HOST, "project": "demo", "logstore": "access_logs"}
    return Service.model_validate({**plain, **changed})


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (HOST, f"https://{HOST}"),
        (f"https://{HOST}/", f"https://{HOST}"),
        (f"https://{HOST}:8443", f"https://{HOST}:8443"),
        ("HTTPS://" + HOST, f"https://{HOST}"),
        ("http://127.0.0.1:9090", "http://127.0.0.1:9090"),
        ("http://localhost:9090", "http://localhost:9090"),
    ],
)
def test_an_endpoint_is_https_or_loopback(given: str, kept: str) -> None:
    assert service(endpoint=given).endpoint == kept


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "https://",
        f"http://{HOST}",
        f"ftp://{HOST}",
        f"https://{HOST}/path",
        f"https://{HOST}?x=1",
        f"https://{HOST}#x",
        f"https://key:secret@{HOST}",
        f"https://:secret@{HOST}",
        f"https://@{HOST}",
        f"https://{HOST}\\@other.example",
        "https://host\\.example",
        "https://host example",
        f"https://{HOST}:port",
        f"https://{HOST}:99999",
        "https://[::1",
        "http://[::1]:9090",
        "http://127.0.0.1.example",
        "http://localhost.example",
        "http://2130706433.example",
        "https://a..b",
        "https://.a",
        "https://a.",
        "https://-a.example",
        "https://" + "a" * 64 + ".example",
        "https://" + "a." * 100 + "example",
        f"https://{HOST}:８０",
    ],
)
def test_an_endpoint_that_could_lead_elsewhere_is_refused(endpoint: str) -> None:
    with pytest.raises(ValidationError):
        service(endpoint=endpoint)


@pytest.mark.parametrize("endpoint", ["127.0.0.1:9090", "localhost:9090", "127.0.0.1"])
def test_a_loopback_endpoint_without_its_scheme_is_told_to_say_it(endpoint: str) -> None:
    """Read as https it would fail with words about certificates."""
    with pytest.raises(ValidationError, match=re.escape(f"endpoint: write http://{endpoint}")):
        service(endpoint=endpoint)


def test_a_refusal_never_repeats_what_was_given() -> None:
    with pytest.raises(ValidationError) as caught:
        service(endpoint="https://key:canary-secret@" + HOST)
    assert "canary-secret" not in str(caught.value)


@pytest.mark.parametrize("project", ["demo", "a-1", "0ab", "a" * 63])
def test_a_project_is_one_label_of_a_host(project: str) -> None:
    assert service(project=project).project == project


@pytest.mark.parametrize(
    "project",
    ["", "ab", "a" * 64, "-abc", "abc-", "Demo", "a.b", "a_b", "a/b", "a@b", "demo\n", "demo.evil.example#"],
)
def test_a_project_that_would_change_the_host_is_refused(project: str) -> None:
    with pytest.raises(ValidationError, match="project: 3 to 63"):
        service(project=project)


@pytest.mark.parametrize("logstore", ["", "ab", "_ab", "ab_", "Logs", "a/b", "a b", "a.b", "..", "x" * 64])
def test_a_logstore_that_is_no_name_is_refused(logstore: str) -> None:
    with pytest.raises(ValidationError, match="logstore: 3 to 63"):
        service(logstore=logstore)


@pytest.mark.parametrize(
    ("endpoint", "region", "name"),
    [
        (HOST, "", "cn-hangzhou"),
        ("cn-hangzhou-intranet.log.aliyuncs.com", "", "cn-hangzhou"),
        ("cn-hangzhou-share.log.aliyuncs.com", "", "cn-hangzhou"),
        ("cn-hangzhou-internal.log.aliyuncs.com", "", "cn-hangzhou"),
        ("cn-hangzhou-vpc.log.aliyuncs.com", "", "cn-hangzhou"),
        ("cn-shanghai-finance-1-intranet.log.aliyuncs.com", "", "cn-shanghai-finance-1"),
        ("http://127.0.0.1:8080", "", "loopback"),
        ("http://localhost:8080", "", "loopback"),
        ("log-global.aliyuncs.com", "eu-central-1", "eu-central-1"),
    ],
)
def test_public_and_private_endpoints_of_a_region_name_the_same_region(
    endpoint: str, region: str, name: str
) -> None:
    assert service(endpoint=endpoint, region=region).region_name == name


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("x.localhost", True),
        ("10.0.0.1", False),
        ("169.254.169.254", False),
        ("localhost.example", False),
        ("xlocalhost", False),
        ("", False),
    ],
)
def test_loopback_is_this_machine_only(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_an_unknown_setting_is_an_error_not_a_default() -> None:
    with pytest.raises(ValidationError, match="logstroe"):
        service(logstroe="access_logs")


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        setattr(service(), "project", "other")  # noqa: B010 - the type checker knows it is frozen


@pytest.mark.parametrize(
    "changed", [{"tries_max": 0}, {"tries_max": 21}, {"read_timeout_s": 0}, {"read_timeout_s": 301}]
)
def test_every_number_of_a_service_has_a_limit(changed: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        service(**changed)


@pytest.mark.parametrize(
    ("provider", "name", "fits"),
    [
        ("env", "", True),
        ("profile", "", True),
        ("profile", "prod", True),
        ("import", "pkg.mod:fn", True),
        ("import", "", False),
        ("env", "pkg.mod:fn", False),
        ("vault", "", False),
    ],
)
def test_a_name_goes_with_the_provider_that_needs_one(provider: str, name: str, fits: bool) -> None:
    if fits:
        assert Credentials.model_validate({"provider": provider, "name": name}).name == name
    else:
        with pytest.raises(ValidationError):
            Credentials.model_validate({"provider": provider, "name": name})


def test_credentials_say_where_keys_are_and_hold_none() -> None:
    assert set(json.loads(service().model_dump_json())["credentials"]) == {"provider", "name"}


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"timeout_s": 12}, "heartbeat_s: at most a third"),
        ({"heartbeat_s": 21}, "heartbeat_s: at most a third"),
        ({"timeout_s": 2}, "timeout_s"),
        ({"patience_s": -1}, "patience_s"),
        ({"name": ""}, "group and holder names"),
        ({"name": "a/b"}, "group and holder names"),
        ({"holder": "x" * 129}, "group and holder names"),
    ],
)
def test_group_times_that_do_not_fit_each_other_are_refused(changed: dict[str, object], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Group.model_validate({"name": "lake", **changed})


def test_three_heartbeats_fit_into_the_default_timeout() -> None:
    group = Group(name="lake")
    assert group.heartbeat_s * 3 <= group.timeout_s


@pytest.mark.parametrize(
    "changed",
    [
        {"bytes_max": 0},
        {"windows_max": 0},
        {"windows_max": 1001},
        {"page_groups_max": 1001},
        {"settle_s": -1},
        {"task_mb": -1},
        {"task_mb": 299},
    ],
)
def test_every_number_of_a_budget_has_a_limit(changed: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        Budget.model_validate(changed)


# --- who asks


def test_a_service_is_asked_by_a_deployment_in_copies_and_other_processes_too() -> None:
    named = service().asked_by("lake/one")
    copies = (named, named.model_copy(update={"tries_max": 1}), pickle.loads(pickle.dumps(named)))
    assert [copy.asker for copy in copies] == ["lake/one"] * 3
    assert service().asker == service().project, "where nothing else is known"
    assert "lake" not in str(named.model_dump()), "it is no setting"


def test_what_a_header_cannot_hold_is_not_in_who_asks() -> None:
    assert service().asked_by("läke) \r\nHost: x/one").asker == "l-ke----Host--x/one"
    assert len(service().asked_by("a" * 300).asker) == 128


# --- how shards are held


def test_the_services_group_holds_shards_unless_something_else_is_said() -> None:
    assert not Coordination().leases and not Coordination().variable


@pytest.mark.parametrize(
    "address",
    [
        "sqlite:////var/leases.db",
        "postgresql://me@db.example.com:5432/leases",
        "mysql+pymysql://db.example.com/leases",
    ],
)
def test_leases_are_in_a_database(address: str) -> None:
    assert Coordination(database=address).leases and not Coordination(database=address).variable
    assert Coordination(database="env:LEASES", assignor="my.module:share").variable == "LEASES"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"database": "env:"}, "a variable's name"),
        ({"assignor": "range"}, "it shares leases"),
        ({"database": "mysql://me:secret@host/db"}, "has a password in it"),
        ({"database": "mysql://:secret@host/db"}, "has a password in it"),
        ({"database": "mysql://host/db?password=secret"}, "options may be secrets"),
        ({"database": "sqlite:///leases.db"}, "from the root on"),
        ({"database": "host/secret"}, "expected KIND"),
        ({"database": "env:mysql://me:secret@host/db"}, "not its content"),
        ({"database": "env:X", "assignor": "cooperative"}, "one of sticky, range, round_robin, weighted"),
    ],
)
def test_a_place_of_leases_that_cannot_work_is_refused_without_its_secret(
    given: dict[str, str], said: str
) -> None:
    with pytest.raises(ValidationError, match=said) as caught:
        Coordination.model_validate(given)
    assert "secret@" not in str(caught.value) and "=secret" not in str(caught.value)
