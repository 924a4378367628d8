"""Spark's settings for a catalog of PyIceberg: same place, same storage, and secrets where they belong."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from pipelines.landing.catalogs.keys import KEYS_PROPERTY
from pipelines.landing.spark.catalog import catalog_settings, is_secret
from pipelines.landing.spark.dbt_environment import dbt_environment
from pipelines.landing.spark.session import JARS_VARIABLE
from pipelines.landing.table.lake import Lake
from pipelines.landing.table.object_store import completed
from sls_io.values.errors import ConfigError

DOCS = Path(__file__).parents[2] / "docs" / "reference.md"
KEY, SECRET, PASSWORD = "the-key-id", "the-secret", "p=ss\\w:rd€"
S3 = {
    "warehouse": "s3://logs/lake",
    "s3.endpoint": "http://127.0.0.1:9000",
    "s3.region": "eu-central-1",
    "client.region": "us-east-1",
    "s3.access-key-id": KEY,
    "s3.secret-access-key": SECRET,
    "s3.request-timeout": "2.5",
}
POSTGRES = {"uri": "postgresql+psycopg2://me:p%3Dss%5Cw:rd%E2%82%AC@db.example:6432/lake"}


def of(properties: dict[str, str]) -> dict[str, str]:
    """The settings below `spark.sql.catalog.lake.` for these properties of PyIceberg."""
    found = catalog_settings(Lake(properties))
    prefix = "spark.sql.catalog.lake."
    return {name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)}


def documented(scheme: str) -> dict[str, str]:
    """The properties that the reference's own lines make of a warehouse of this scheme."""
    block = next(b for b in DOCS.read_text().split("```") if f"WAREHOUSE={scheme}" in b)
    lines = block[block.index(f"WAREHOUSE={scheme}") :].split("\n# ")[0]
    said = re.findall(r"(?:PYICEBERG_CATALOG__LAKE__|^)([A-Z0-9_]+)=(\S+)", lines)
    return {name.lower().replace("__", ".").replace("_", "-"): value for name, value in said}


def test_the_documented_lines_for_oss_are_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLS_LAKE_HOME", str(tmp_path))
    for name in ("AWS_CONFIG_FILE", "AWS_PROFILE"):
        monkeypatch.setenv(name, "")
    monkeypatch.delenv("AWS_REQUEST_CHECKSUM_CALCULATION", raising=False)
    said = documented("oss://")
    assert set(said) == {"warehouse", "s3.endpoint", KEYS_PROPERTY}
    found = catalog_settings(Lake({**POSTGRES, **said, KEYS_PROPERTY: "env"}))
    ours = {name.removeprefix("spark.sql.catalog.lake."): value for name, value in found.items()}
    assert (ours["warehouse"], ours["client.region"]) == ("oss://logs/lake", "cn-hangzhou")
    assert ours["s3.endpoint"] == "https://oss-cn-hangzhou-internal.aliyuncs.com"
    assert not any("access-key" in name for name in ours), "Java asks for keys itself"
    assert ours[KEYS_PROPERTY].endswith(".ProfileCredentialsProvider")
    config = Path(found["spark.executorEnv.AWS_CONFIG_FILE"]).read_text(encoding="utf-8")
    (line,) = re.findall(r"^\[profile sls-lake\]\ncredential_process = (.*)$", config, re.MULTILINE)
    keys = json.loads(subprocess.run(["sh", "-c", line], capture_output=True, check=True).stdout)
    variable = "ALIBABA_CLOUD_ACCESS_KEY_"
    assert keys["AccessKeyId"] == os.environ[f"{variable}ID"] and keys["Version"] == 1
    assert keys["SecretAccessKey"] == os.environ[f"{variable}SECRET"] and "Expiration" not in keys
    assert (ours["s3.path-style-access"], ours["s3.chunked-encoding-enabled"]) == ("false", "false")
    assert ours["client.legacy-md5-plugin-enabled"] == "true"
    assert found["spark.executorEnv.AWS_REQUEST_CHECKSUM_CALCULATION"] == "when_required"
    assert os.environ["AWS_REQUEST_CHECKSUM_CALCULATION"] == "when_required", "for the Java that is started"
    (tmp_path / "aws.jar").touch()
    monkeypatch.setenv(JARS_VARIABLE, str(tmp_path))
    dbt = dbt_environment(Lake({**POSTGRES, **said, KEYS_PROPERTY: "env"}))
    assert dbt["AWS_REQUEST_CHECKSUM_CALCULATION"] == "when_required", "for dbt, which is started with these"
    assert dbt["AWS_CONFIG_FILE"] == found["spark.executorEnv.AWS_CONFIG_FILE"]


def test_executors_of_a_cluster_get_the_keys_of_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLS_SPARK_MASTER", "spark://cluster:7077")
    found = of({**POSTGRES, **S3, KEYS_PROPERTY: "env"})
    assert found["s3.access-key-id"] == os.environ["ALIBABA_CLOUD_ACCESS_KEY_ID"]
    assert KEYS_PROPERTY not in found


@pytest.mark.parametrize(
    ("endpoint", "region"),
    [
        ("oss-cn-beijing.aliyuncs.com", "cn-beijing"),
        ("https://s3.oss-eu-central-1-internal.aliyuncs.com", "eu-central-1"),
        ("https://oss-accelerate.aliyuncs.com", "us-east-1"),
        ("https://logs.example.com", "us-east-1"),
    ],
)
def test_the_region_of_oss_is_in_its_endpoint(endpoint: str, region: str) -> None:
    """An endpoint of one's own is one of OSS where the warehouse says so."""
    found = completed({"warehouse": "oss://logs/lake", "s3.endpoint": endpoint})
    assert (found["s3.region"], found["s3.force-virtual-addressing"]) == (region, "true")
    assert found["s3.endpoint"].startswith("https://")


def test_an_endpoint_of_ones_own_says_how_it_is_spoken_to() -> None:
    with pytest.raises(ConfigError, match=r"127\.0\.0\.1:9000: write http:// or https:// before it"):
        completed({"warehouse": "s3://logs/lake", "s3.endpoint": "127.0.0.1:9000"})


@pytest.mark.parametrize(
    ("there", "lacking"),
    [
        ("s3.access-key-id", "S3__SECRET_ACCESS_KEY"),
        ("client.access-key-id", "S3__SECRET_ACCESS_KEY"),
        ("s3.secret-access-key", "S3__ACCESS_KEY_ID"),
    ],
)
def test_half_a_pair_of_keys_is_named(there: str, lacking: str) -> None:
    """It looked like a damaged file: pyarrow refuses the pair where a file is opened."""
    with pytest.raises(ConfigError, match=f"{lacking} is not set") as error:
        completed({"warehouse": "s3://logs/lake", there: "VALUE"})
    assert "VALUE" not in str(error.value)


def test_a_store_of_ones_own_is_told_what_its_owner_says() -> None:
    own = {"s3.chunked-encoding-enabled": "true", "client.legacy-md5-plugin-enabled": "false"}
    found = of({**POSTGRES, **S3, **own})
    assert {name: found[name] for name in own} == own


def test_postgresql_keeps_what_changes_who_is_talked_to() -> None:
    found = of({"uri": f"{POSTGRES['uri']}?sslmode=verify-full&connect_timeout=5&keepalives=1"})

    place, _, options = found["uri"].partition("?")
    assert place == "jdbc:postgresql://db.example:6432/lake"
    assert sorted(options.split("&")) == ["connectTimeout=5", "sslmode=verify-full"]
    assert (found["type"], found["jdbc.user"], found["jdbc.password"]) == ("jdbc", "me", PASSWORD)
    assert PASSWORD not in found["uri"] and "io-impl" not in found


def test_a_rest_catalog_keeps_its_keys_and_headers() -> None:
    rest = {"uri": "https://catalog.example/api", "warehouse": "prod", "credential": "id:s", "scope": "all"}

    found = of({**rest, "header.X-Team": "logs", "ssl": "ours"})

    assert found == {**rest, "type": "rest", "header.X-Team": "logs", "cache-enabled": "false"}


def test_storage_on_s3_has_the_names_of_the_other_side() -> None:
    found = of({**POSTGRES, **S3})

    assert found["io-impl"].endswith("S3FileIO")
    assert found["client.region"] == "eu-central-1", "the name of S3 wins over that of all clients"
    assert (found["s3.access-key-id"], found["s3.secret-access-key"]) == (KEY, SECRET)
    assert found["http-client.apache.socket-timeout-ms"] == "2500"
    assert found["s3.path-style-access"] == "true"
    virtual = of({**POSTGRES, **S3, "s3.force-virtual-addressing": "true"})
    assert virtual["s3.path-style-access"] == "false"
    assert "s3.path-style-access" not in of({**POSTGRES, "warehouse": "s3://logs/lake"})


def test_other_storage_is_found_by_its_scheme_and_a_disk_needs_nothing() -> None:
    assert of({**POSTGRES, "warehouse": "gs://logs/lake"})["io-impl"].endswith("ResolvingFileIO")
    assert "io-impl" not in of({**POSTGRES, "warehouse": "file:///lake"})


@pytest.mark.parametrize(
    "properties",
    [
        {"type": "glue"},
        {"uri": "thrift://metastore:9083"},
        {"type": "sql", "uri": "mysql://db/lake"},
        {"type": "sql", "uri": "no address"},
        {"py-catalog-impl": "their.Catalog"},
    ],
)
def test_a_catalog_that_is_not_known_is_left_to_the_user(properties: dict[str, str]) -> None:
    assert catalog_settings(Lake(properties)) == {}


@pytest.mark.parametrize(
    ("properties", "place"),
    [
        (POSTGRES, "PostgreSQL at db.example:6432"),
        ({"uri": "https://u:p@catalog.example/x?token=t"}, "rest catalog at catalog.example"),
        ({"type": "glue"}, "glue catalog"),
        ({"uri": "postgresql://db:port/x"}, "PostgreSQL"),
        ({}, "configured catalog"),
    ],
)
def test_people_are_told_which_catalog_without_its_keys(properties: dict[str, str], place: str) -> None:
    assert Lake(properties).place == place


def test_secrets_are_known_by_name() -> None:
    names = ("jdbc.password", "s3.secret-access-key", "s3.access-key-id", "token", "credential")
    assert all(is_secret(f"spark.sql.catalog.lake.{name}") for name in names)
    assert is_secret("spark.sql.catalog.lake.header.Authorization")
    assert is_secret("spark.hadoop.fs.s3a.secret.key") and is_secret("spark.authenticate.secret")
    assert not any(is_secret(name) for name in ("spark.sql.catalog.lake.uri", "spark.redaction.regex"))


def test_dbt_gets_secrets_in_a_file_of_the_owners_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars = tmp_path / "jars"
    jars.mkdir()
    for name in ("runtime.jar", "aws.jar"):
        (jars / name).touch()
    monkeypatch.setenv("SLS_LAKE_HOME", str(tmp_path / "a home"))
    monkeypatch.setenv("SLS_LAKE_JARS", str(jars))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    lake = Lake({**POSTGRES, **S3})

    first = dbt_environment(lake)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", first["PYSPARK_SUBMIT_ARGS"])
    found = dbt_environment(lake)

    file = tmp_path / "a home" / "dbt" / "secrets.properties"
    assert found == first, "asked for twice it is named once"
    assert found["PYSPARK_SUBMIT_ARGS"] == f"--properties-file '{file}' pyspark-shell"
    assert file.stat().st_mode & 0o777 == 0o600 and file.stat().st_uid == os.geteuid()
    everything = json.dumps(found)
    assert not any(secret in everything for secret in (KEY, SECRET, "p=ss", "p%3Dss"))
    lines = dict(line.split("=", 1) for line in file.read_text().splitlines())
    read = {name: value.encode().decode("unicode_escape") for name, value in lines.items()}
    prefix = "spark.sql.catalog.lake"
    assert read == {
        f"{prefix}.jdbc.password": PASSWORD,
        f"{prefix}.s3.access-key-id": KEY,
        f"{prefix}.s3.secret-access-key": SECRET,
    }


def test_without_secrets_dbt_gets_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runtime.jar").touch()
    monkeypatch.setenv("SLS_LAKE_HOME", str(tmp_path))
    monkeypatch.setenv("SLS_LAKE_JARS", str(tmp_path))
    assert "PYSPARK_SUBMIT_ARGS" not in dbt_environment(Lake({"uri": "sqlite:////lake.sqlite"}))


def test_the_short_session_of_dbt_keeps_java_from_compiling_for_a_long_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runtime.jar").touch()
    monkeypatch.setenv("SLS_LAKE_HOME", str(tmp_path))
    monkeypatch.setenv("SLS_LAKE_JARS", str(tmp_path))
    found = dbt_environment(Lake({"uri": "sqlite:////lake.sqlite"}))
    conf = json.loads(found["SLS_DBT_SPARK_CONF"])
    assert "-XX:TieredStopAtLevel=1" in conf["spark.driver.extraJavaOptions"]
    assert "SLS_DBT_SPARK_CONF" not in dbt_environment(remote="sc://127.0.0.1:15002")


def test_dbt_is_not_started_where_its_spark_would_have_no_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runtime.jar").touch()
    monkeypatch.setenv("SLS_LAKE_HOME", str(tmp_path))
    monkeypatch.setenv("SLS_LAKE_JARS", str(tmp_path))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    lake = Lake({"uri": "mysql://me:secret@db/lake"})
    with pytest.raises(ConfigError, match=r"\(sql catalog at db\).* SQLite, on PostgreSQL and of REST"):
        dbt_environment(lake)
    assert dbt_environment(lake, remote="sc://127.0.0.1:15002")
    own = "spark.sql.catalog.lake org.apache.iceberg.spark.SparkCatalog"
    (tmp_path / "spark-defaults.conf").write_text(own)
    assert dbt_environment(lake)
