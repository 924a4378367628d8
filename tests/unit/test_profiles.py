"""Catalogs of Aliyun by a word: what both engines must know is made of few facts."""

import re

import pytest

from pipelines.landing.catalogs.keys import KEYS_PROPERTY
from pipelines.landing.catalogs.profiles import expanded, has_views
from pipelines.landing.catalogs.upkeep import COMPACTION, EXPIRY, CatalogUpkeep, read
from pipelines.landing.spark.catalog import catalog_settings
from pipelines.landing.spark.store_keys import PROVIDER_CLASS
from pipelines.landing.table.lake import Lake, configured
from sls_io.values.errors import ConfigError
from tests.snippets import REFERENCE

ARN = "acs:osstables:cn-hangzhou:1234567890:bucket/logs"


def documented(kind: str) -> dict[str, str]:
    """The variables that the reference's own lines set for a catalog of this kind."""
    block = next(b for b in REFERENCE.split("```") if f"TYPE={kind}" in b)
    lines = block[block.index(f"PYICEBERG_CATALOG__LAKE__TYPE={kind}") :].split("\n# ")[0]
    return dict(re.findall(r"(PYICEBERG_CATALOG__LAKE__[A-Z0-9_]+)=(\S+)", lines))


@pytest.mark.parametrize(
    ("kind", "uri", "name", "endpoint"),
    [
        (
            "osstables",
            "https://cn-hangzhou-internal.oss-tables.aliyuncs.com/iceberg",
            "osstables",
            "https://oss-cn-hangzhou-internal.aliyuncs.com",
        ),
        (
            "dlf",
            "http://cn-hangzhou-vpc.dlf.aliyuncs.com/iceberg",
            "DlfNext",
            "https://oss-cn-hangzhou-internal.aliyuncs.com",
        ),
    ],
)
def test_the_documented_lines_are_enough_for_both_engines(
    kind: str, uri: str, name: str, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in documented(kind).items():
        monkeypatch.setenv(variable, value)
    said = configured()
    assert (said["type"], said["uri"], said["rest.signing-name"]) == ("rest", uri, name)
    assert (said["rest.sigv4-enabled"], said["rest.signing-region"]) == ("true", "cn-hangzhou")
    assert (said["s3.endpoint"], said["s3.region"]) == (endpoint, "cn-hangzhou")
    assert said[KEYS_PROPERTY] == "default" and has_views(said) == (kind == "dlf")
    prefix = "spark.sql.catalog.lake."
    spark = {
        setting.removeprefix(prefix): value
        for setting, value in catalog_settings(Lake({**said, KEYS_PROPERTY: "env"})).items()
    }
    assert (spark["uri"], spark["rest.signing-name"], spark["warehouse"]) == (uri, name, said["warehouse"])
    assert (spark["rest.auth.type"], spark["rest.auth.sigv4.delegate-auth-type"]) == ("sigv4", "none")
    # Java asks for the keys of its files by itself, and signs with those of this moment.
    assert spark["rest.access-key-id"] and "s3.access-key-id" not in spark
    assert spark[KEYS_PROPERTY] == PROVIDER_CLASS
    assert (spark["s3.path-style-access"], spark["client.region"]) == ("false", "cn-hangzhou")


def test_what_is_said_beside_the_facts_wins() -> None:
    own = {
        "uri": "http://127.0.0.1:1/iceberg",
        "s3.endpoint": "https://own.example",
        "s3.access-key-id": "id",
    }
    found = expanded({"type": "osstables", "warehouse": ARN, "network": "public", **own})
    assert {name: found[name] for name in own} == own and found[KEYS_PROPERTY] == "default"
    pair = {**own, "s3.secret-access-key": "secret"}
    assert KEYS_PROPERTY not in expanded({"type": "osstables", "warehouse": ARN, **pair})
    assert "-internal" not in expanded({"type": "osstables", "warehouse": ARN, "network": "public"})["uri"]
    assert expanded({"type": "rest", "uri": "x", "network": "theirs"}) == {
        "type": "rest",
        "uri": "x",
        "network": "theirs",
    }


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"type": "osstables"}, "needs the ARN of its table bucket"),
        ({"type": "osstables", "warehouse": "oss://logs"}, "acs:osstables:REGION:ACCOUNT:bucket/NAME"),
        ({"type": "osstables", "warehouse": ARN, "network": "vpc"}, "expected internal or public"),
        ({"type": "dlf", "warehouse": "lake"}, "needs its region and its name"),
        ({"type": "dlf", "region": "cn-hangzhou"}, "needs its region and its name"),
        ({"type": "dlf", "region": "cn-hangzhou", "warehouse": "w", "network": "public"}, "inside a VPC"),
    ],
)
def test_a_fact_that_is_missing_or_cannot_be_meant_is_named(said: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        expanded(said)


def test_a_table_that_nobody_configured_is_expired_and_compacted() -> None:
    off = {"status": "disabled", "settings": {}}
    assert read({}, ARN) == read({COMPACTION: {"status": "enabled"}}, ARN)
    assert len(read({}, ARN).said()) == len(read({}, ARN).cures(("bronze", "t"))) == 2
    own = {EXPIRY: {"status": "enabled", "settings": {EXPIRY: {"maxSnapshotAgeHours": 24}}}, COMPACTION: off}
    assert read(own, ARN).said() == ("expires snapshots after 24 h, all but 1,",)
    (cure,) = read(own, ARN).cures(("bronze", "access_logs"))
    assert f"--type {EXPIRY}" in str(cure) and "--namespace bronze --name access_logs" in str(cure)
    assert read({EXPIRY: off, COMPACTION: off}, ARN).said() == CatalogUpkeep().said() == ()
