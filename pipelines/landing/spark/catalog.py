"""Spark's settings for the catalog that PyIceberg uses: the same names where both have one, else translated.

A kind of catalog that is not known here is left out, and Spark then has no such catalog. A landing does not
need it; SQL and dbt do, and take settings of their own (`conf` of the engine).

Why a person does not set both sides: what differs is mostly no error. Under another name of the catalog
PyIceberg lists nothing, since the name is a key column. With Iceberg's own cache on Spark plans on a table
that is up to 30 seconds old. And a store of one's own is asked with the bucket in the host's name by one side
and in the path by the other. So all of it is made here, from PyIceberg's settings.
"""

import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from pipelines.landing.catalogs.keys import KEYS_PROPERTY, keys_of, pair, with_keys
from pipelines.landing.catalogs.profiles import SIGNED, SIGNING_NAME, SIGNING_REGION
from pipelines.landing.spark.remote import DEFAULT_MASTER, MASTER_VARIABLE, on_this_machine
from pipelines.landing.spark.store_keys import PROVIDER_CLASS, ask_again
from pipelines.landing.table.home import CATALOG, home, made
from pipelines.landing.table.lake import Lake
from pipelines.landing.table.object_store import SCHEMES, completed, send_whole_bodies
from sls_io.wire.credentials import resolve
from sls_io.wire.keys import NO_KEYS

if TYPE_CHECKING:
    from pyspark import SparkContext

SECRET_NAMES = "(?i)secret|password|token|credential|access[._-]?key|authorization"
"""Settings whose values nobody may see: Spark hides them in its logs, and we keep them off command lines."""
EXECUTOR = "spark.executorEnv."
"""Before the name of a variable that executors get."""
CATALOG_SETTING = f"spark.sql.catalog.{CATALOG}"
"""The setting that is the catalog; those of the catalog begin with it."""
_SAME_IN_REST = {
    *("token", "credential", "scope", "audience", "resource", "oauth2-server-uri", "prefix"),
    *(SIGNED, SIGNING_REGION, SIGNING_NAME, "rest.auth.type", "rest.auth.sigv4.delegate-auth-type"),
    "rest-metrics-reporting-enabled",
    *(f"rest.{name}" for name in ("access-key-id", "secret-access-key", "session-token")),
}
_S3 = {
    "s3.endpoint": "s3.endpoint",
    "s3.proxy-uri": "http-client.proxy-endpoint",
    **{f"{family}.access-key-id": "s3.access-key-id" for family in ("client", "s3")},
    **{f"{family}.secret-access-key": "s3.secret-access-key" for family in ("client", "s3")},
    **{f"{family}.session-token": "s3.session-token" for family in ("client", "s3")},
    **{f"{family}.region": "client.region" for family in ("client", "s3")},
}
_S3_SAME = ("client.legacy-md5-plugin-enabled", "s3.chunked-encoding-enabled", "s3.path-style-access")
_S3_SECONDS = {
    "s3.connect-timeout": "http-client.apache.connection-timeout-ms",
    "s3.request-timeout": "http-client.apache.socket-timeout-ms",
}
_PROPERTIES = {
    "AWS_CONFIG_FILE": "aws.configFile",
    "AWS_PROFILE": "aws.profile",
    "AWS_REQUEST_CHECKSUM_CALCULATION": "aws.requestChecksumCalculation",
    "AWS_RESPONSE_CHECKSUM_VALIDATION": "aws.responseChecksumValidation",
}
"""Variables of Amazon's library for Java, and the properties that say the same (`SdkSystemSetting` and
`ProfileFileSystemSetting` there)."""
_POSTGRES_SAME = {"sslmode", "sslrootcert", "sslcert", "sslkey", "options"}
_POSTGRES = {"connect_timeout": "connectTimeout", "application_name": "ApplicationName"}


def catalog_settings(lake: Lake) -> dict[str, str]:
    """The settings of the catalog `lake`, without jars; nothing for a catalog that is not known here.

    Secrets are among them: whoever starts Spark keeps those that `is_secret` names off the command line.
    Variables for executors stand as `spark.executorEnv.NAME`, since a cluster's have none of ours; what a
    Java that runs here must be told of them is `tell_running_java`'s.
    """
    settings = {
        "rest": _rest,
        "sql": _jdbc,
    }.get(lake.kind, lambda _: dict[str, str]())(lake)
    if not settings:
        return {}
    shared = {"cache-enabled": "false", **_warehouse(lake), **_storage(lake)}
    variables = {**send_whole_bodies(lake.properties), **_keys_asked_again(lake)} if on_s3(lake) else {}
    return {
        **{f"{EXECUTOR}{name}": value for name, value in variables.items()},
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.defaultCatalog": CATALOG,
        CATALOG_SETTING: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{CATALOG_SETTING}.{name}": value for name, value in {**settings, **shared}.items()},
    }


def tell_running_java(context: "SparkContext", settings: Mapping[str, str]) -> None:
    """Tell the Java of `context` what the variables among these settings say.

    A Java that was started before has the variables of then. Amazon's library looks at the properties of
    these names first, which can be set in one that runs.
    """
    for variable, name in _PROPERTIES.items():
        if value := settings.get(f"{EXECUTOR}{variable}"):
            context._jvm.java.lang.System.setProperty(name, value)  # type: ignore[union-attr]


def is_secret(setting: str) -> bool:
    """Whether the value of a setting of Spark must not be seen by other users of the machine.

    By its name, and rather one too many: of `spark.sql.catalog.lake.` the settings `jdbc.password` and
    `s3.secret-access-key` are secrets, and so is `client.credentials-provider`, which is only a class; `uri`
    is none, so an address must not hold a password (`_jdbc` takes it out). So is what a person gives to Spark
    himself: `spark.hadoop.fs.s3a.secret.key`, `spark.authenticate.secret`.
    """
    return re.search(SECRET_NAMES, setting) is not None


def on_s3(lake: Lake) -> bool:
    """Whether its tables lie on S3, as far as the settings say."""
    place = lake.properties.get("warehouse", "")
    return urlsplit(place).scheme in SCHEMES or any(name.startswith("s3.") for name in lake.properties)


def _warehouse(lake: Lake) -> dict[str, str]:
    warehouse = lake.properties.get("warehouse", "")
    return {"warehouse": warehouse} if warehouse else {}


def _rest(lake: Lake) -> dict[str, str]:
    said = lake.properties
    same = {name: said[name] for name in said if name in _SAME_IN_REST or name.startswith("header.")}
    credentials = keys_of(said) if said.get(SIGNED, "").lower() == "true" else None
    # As with its storage: Java's client signs with the keys of this moment.
    keys = pair(resolve(credentials), "rest") if credentials else {}
    return {"type": "rest", "uri": said.get("uri", ""), **same, **keys}


def _jdbc(lake: Lake) -> dict[str, str]:
    kind = {"type": "jdbc", "jdbc.schema-version": "V1"}
    path = lake.sqlite_path
    if path is not None:
        # Without them its driver waits 3 s for a lock and then fails in the middle of a commit, with an error
        # that reads as unknown although nothing was done. In WAL whoever reads waits for nobody who writes.
        options = "busy_timeout=30000&journal_mode=WAL&transaction_mode=IMMEDIATE&synchronous=FULL"
        return {**kind, "uri": f"jdbc:sqlite:{path}?{options}"}
    try:
        url = make_url(lake.properties.get("uri", ""))
    except ArgumentError:
        return {}
    if not url.drivername.startswith("postgresql"):
        return {}
    settings = {**kind, "uri": _postgres_address(url)}
    if url.username:
        settings["jdbc.user"] = url.username
    if url.password:
        settings["jdbc.password"] = str(url.password)
    return settings


def _postgres_address(url: URL) -> str:
    """With the options that change who is talked to and how safely, under the names Java has for them.

    Worked example: postgresql+psycopg2://ann:pw@db/lake?sslmode=require&connect_timeout=5&host=/tmp becomes
    jdbc:postgresql://db:5432/lake?connectTimeout=5&sslmode=require. Name and password go apart, as
    `jdbc.user` and `jdbc.password`. An option without a name in Java (a socket's folder) is left out.
    """
    options = url.set(query=dict(_postgres_options(url.query))).render_as_string().partition("?")[2]
    place = f"{url.host or 'localhost'}:{url.port or 5432}/{url.database or ''}"
    return f"jdbc:postgresql://{place}{'?' if options else ''}{options}"


def _postgres_options(query: Mapping[str, str | tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    for name, value in query.items():
        if isinstance(value, str) and (name in _POSTGRES_SAME or name in _POSTGRES):
            yield _POSTGRES.get(name, name), value


def _storage(lake: Lake) -> dict[str, str]:
    if on_s3(lake):
        return dict(_s3(lake.properties))
    if lake.kind == "sql" and "://" in (place := _warehouse(lake).get("warehouse", "")):
        return {} if place.startswith("file:") else {"io-impl": "org.apache.iceberg.io.ResolvingFileIO"}
    return {}


def _keys_asked_again(lake: Lake) -> dict[str, str]:
    credentials = keys_of(lake.properties)
    return ask_again(credentials, made(home() / "spark")) if credentials and _on_this_machine() else {}


def _on_this_machine() -> bool:
    """Whether Spark's executors are threads of its driver: those of a cluster have neither its files nor,
    perhaps, a role of their own."""
    return on_this_machine(os.environ.get(MASTER_VARIABLE) or DEFAULT_MASTER)


def _s3(said: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """An address of one's own is reached as pyarrow does: the bucket in the path unless told otherwise. Its
    store gets what all of them know: whole bodies, and an MD5 where a deletion needs a checksum.

    Keys of a provider are asked for by Java itself; on a cluster they are those of this moment: its machines
    have neither our program nor its profile (`store_keys.py`), and a session there ends with its keys.

    Worked example: client.region a and s3.region b with an endpoint of one's own give client.region b,
    path-style access, a Content-MD5 with deletions and no chunks; a connect timeout of 2.5 s is 2500 ms.
    """
    credentials = keys_of(said)
    # Asked for here, too: what is wrong with the place is said by its own error, and not by Java's.
    keys = resolve(credentials) if credentials else None
    asked_again = credentials is not None and _on_this_machine()
    properties = with_keys(completed(said), NO_KEYS if asked_again else keys)
    yield "io-impl", "org.apache.iceberg.aws.s3.S3FileIO"
    if asked_again:
        yield KEYS_PROPERTY, PROVIDER_CLASS
    # In this order the names of S3 win over those of all clients, as they do in PyIceberg.
    for name in sorted(_S3):
        if name in properties:
            yield _S3[name], properties[name]
    for name, there in _S3_SECONDS.items():
        if name in properties:
            yield there, str(round(float(properties[name]) * 1000))
    virtual = properties.get("s3.force-virtual-addressing", "false").lower() == "true"
    if "s3.endpoint" in properties:
        yield "s3.path-style-access", "false" if virtual else "true"
        yield "client.legacy-md5-plugin-enabled", "true"
        yield "s3.chunked-encoding-enabled", "false"
    for name in _S3_SAME:
        if name in said:
            yield name, said[name]
