"""Requests to a catalog are signed as a server computes it again, with keys that are renewed."""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import requests
from pyiceberg.exceptions import ForbiddenError, RESTError

from pipelines.landing.catalogs.keys import KEYS_PROPERTY
from pipelines.landing.catalogs.profiles import expanded
from pipelines.landing.catalogs.signing import Signature, SigningCatalog
from pipelines.landing.catalogs.upkeep import COMPACTION, DEFAULTS, EXPIRY
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ConfigError, TransportError
from tests.backends import s3
from tests.backends.osstables import ARN, TableBucket

TABLE = ("bronze", "access_logs")


@pytest.fixture
def bucket() -> Iterator[TableBucket]:
    """A table bucket with nothing behind it."""
    found = TableBucket("http://127.0.0.1:1", "file:///nowhere", {})
    yield found
    found.end()


def properties(bucket: TableBucket, **more: str) -> dict[str, str]:
    """Of the catalog at `bucket`, with keys of the environment unless told otherwise."""
    said = {"type": "osstables", "warehouse": ARN, "uri": bucket.uri, KEYS_PROPERTY: "env", **more}
    return expanded({name: value for name, value in said.items() if value})


def test_a_catalog_opens_and_tells_what_it_does_without_a_package_of_development(
    bucket: TableBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    catalog = SigningCatalog("lake", **properties(bucket))
    does = catalog.upkeep(TABLE)
    assert (does.expires, does.compacts) == (DEFAULTS[EXPIRY], DEFAULTS[COMPACTION])
    bucket.turn_off(".".join(TABLE))
    assert catalog.upkeep(TABLE).said() == () and bucket.refused == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"rest.signing-name": "s3tables"}, "signed for cn-hangzhou/s3tables"),
        ({"rest.signing-region": "cn-beijing"}, "signed for cn-beijing/osstables"),
    ],
)
def test_a_signature_for_something_else_is_refused(
    change: dict[str, str], why: str, bucket: TableBucket
) -> None:
    with pytest.raises(RESTError, match=why):
        SigningCatalog("lake", **{**properties(bucket), **change})


@pytest.mark.parametrize("what", ["body", "path", "query", "secret"])
def test_what_was_not_signed_is_refused(
    what: str, bucket: TableBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The judge is worth something: nothing of a request can be changed behind its signature."""
    if what == "secret":
        monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "another")
    url = f"{bucket.uri}/v1/config?warehouse={ARN}"
    sent = requests.Request("POST", url, data=b"{}", auth=Signature(properties(bucket))).prepare()
    with requests.Session() as session:
        if what == "body":
            sent.body = b"[]"
        elif what != "secret":
            sent.url = f"{bucket.uri}/v1/confih?warehouse={ARN}" if what == "path" else f"{url}x"
        answer = session.send(sent)
    assert answer.status_code == 403 and "SignatureDoesNotMatch" in answer.text


def test_keys_are_asked_for_again_before_they_end_and_once_they_were_refused(
    bucket: TableBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = SYSTEM_CLOCK.now()
    (tmp_path / "catalog_keys.py").write_text(
        f"given = [('gone', 'gone', ''), ('role', 'first', 'one', {now_s + 60}), "
        f"('role', 'second', 'two', {now_s + 7200})]\n"
        "asked = []\n\n\ndef keys():\n    asked.append(1)\n    return given[min(len(asked), 3) - 1]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    bucket.keys["role"] = ("first", "one")
    said = properties(bucket, **{KEYS_PROPERTY: "import:catalog_keys:keys"})
    signature = Signature(said)
    place = f"{bucket.uri}/v1/config?warehouse={ARN}"
    with requests.Session() as session:
        session.auth = signature
        assert session.get(place).status_code == 403, "the first ones are nobody's"
        assert session.get(place).status_code == 200
        bucket.keys["role"] = ("second", "two")
        assert [session.get(place).status_code for _ in range(3)] == [200, 200, 200]
    assert len(import_module("catalog_keys").asked) == 3


def test_without_a_provider_keys_are_those_of_the_properties_or_of_amazons_chain(bucket: TableBucket) -> None:
    bucket.keys = {"mine": ("secret", ""), s3.KEY_ID: (s3.KEY_SECRET, "")}
    own = {"rest.access-key-id": "mine", "rest.secret-access-key": "secret", KEYS_PROPERTY: ""}
    SigningCatalog("lake", **properties(bucket, **own))
    chain = {**properties(bucket), KEYS_PROPERTY: ""}
    SigningCatalog("lake", **chain)
    assert bucket.refused == []
    bucket.keys = {}
    with pytest.raises(ForbiddenError, match="InvalidAccessKeyId"):
        SigningCatalog("lake", **chain)


def test_who_may_not_see_what_the_catalog_does_is_told_the_action(bucket: TableBucket) -> None:
    catalog = SigningCatalog("lake", **properties(bucket))
    bucket.keys = {}
    with pytest.raises(ConfigError, match=r"allow it oss:GetTableMaintenanceConfiguration on acs:osstables:"):
        catalog.upkeep(TABLE)
    bucket.keys = {FAKE_ID: (FAKE_SECRET, "")}
    assert catalog.upkeep(TABLE).said()
    bucket.end()
    with pytest.raises(TransportError, match=r"what OSS Tables does to bronze\.access_logs by itself"):
        catalog.upkeep(TABLE)


def test_a_catalog_that_wants_signatures_needs_a_region() -> None:
    with pytest.raises(ConfigError, match=r"rest\.signing-region"):
        Signature({KEYS_PROPERTY: "env"})
