"""Two catalogs of Aliyun by a word, `type: osstables` and `type: dlf`, from few facts that a person knows.

    osstables   warehouse   the ARN of a table bucket, acs:osstables:REGION:ACCOUNT:bucket/NAME
    dlf         warehouse   the name of the catalog; region
    both        network     internal (default) or public; client.credentials-provider, `default` unless said

Both speak Iceberg's REST protocol and want Amazon's signature, version 4, with Aliyun's keys. What is said
beside these facts wins over what is made of them. Vendor documentation: "Iceberg REST Catalog API
compatibility" and "Access OSS Tables with Spark" (OSS); "Access DLF Iceberg tables using Java API" (DLF).
"""

import re
from collections.abc import Callable, Mapping

from pipelines.landing.catalogs.keys import KEYS_PROPERTY, written
from sls_io.values.errors import ConfigError, printable

PROFILE_PROPERTY = "catalog-profile"
"""Which of the two a catalog is, once its properties are made."""
OSS_TABLES, DLF = "osstables", "dlf"
SIGNED = "rest.sigv4-enabled"
SIGNING_REGION, SIGNING_NAME = "rest.signing-region", "rest.signing-name"
TO_ASK_AGAIN = (
    *("uri", "warehouse", "s3.endpoint", "s3.region", KEYS_PROPERTY),
    *(PROFILE_PROPERTY, SIGNED, SIGNING_REGION, SIGNING_NAME),
)
"""What opens such a catalog again where a file is to be written: no secret is among it."""
_ARN = re.compile(r"acs:osstables:(?P<region>[a-z0-9-]+):\d+:bucket/[a-z0-9-]+")
_REGION = re.compile(r"[a-z]{2}-[a-z0-9-]+")
_NETWORKS = ("internal", "public")
_FACTS = ("type", "network", "region")


def expanded(said: Mapping[str, str]) -> dict[str, str]:
    """`said` with what the profile that it names makes of its facts; as it is where it names none.

    Raises ConfigError for a fact that is missing or cannot be meant. Worked example: type osstables with the
    warehouse acs:osstables:cn-hangzhou:1:bucket/logs becomes type rest, the uri
    https://cn-hangzhou-internal.oss-tables.aliyuncs.com/iceberg, signatures of `osstables` in cn-hangzhou,
    files at https://oss-cn-hangzhou-internal.aliyuncs.com, and keys of the provider `default`. Keys that are
    written there stay, and no provider is put beside them: whoever wrote them wants those.
    """
    kind = said.get("type", "").lower()
    make = _PROFILES.get(kind)
    if make is None:
        return dict(said)
    network = said.get("network", _NETWORKS[0])
    if network not in _NETWORKS:
        raise ConfigError(f"network is {printable(network)!r}: expected {' or '.join(_NETWORKS)}")
    keys = {} if written(said, "rest", "client", "s3") else {KEYS_PROPERTY: "default"}
    own = {name: value for name, value in said.items() if name not in _FACTS}
    return {**make(said, network == "internal"), **keys, **own, "type": "rest", PROFILE_PROPERTY: kind}


def has_views(properties: Mapping[str, str]) -> bool:
    """Whether the catalog keeps views; OSS Tables does not, and makes no table of a query either."""
    return properties.get(PROFILE_PROPERTY) != OSS_TABLES


def _oss_tables(said: Mapping[str, str], internal: bool) -> dict[str, str]:
    found = _ARN.fullmatch(said.get("warehouse", ""))
    if found is None:
        raise ConfigError(
            f"an osstables catalog needs the ARN of its table bucket as warehouse, not "
            f"{printable(said.get('warehouse', ''))!r}: set PYICEBERG_CATALOG__LAKE__WAREHOUSE to "
            "acs:osstables:REGION:ACCOUNT:bucket/NAME, as `ossutil tables-api list-table-buckets` shows it"
        )
    region, inner = found["region"], "-internal" if internal else ""
    return {
        "uri": f"https://{region}{inner}.oss-tables.aliyuncs.com/iceberg",
        **_signed(region, "osstables"),
        # Its 13 endpoints take no reports of scans, and its configuration does not say so.
        "rest-metrics-reporting-enabled": "false",
        **_files(region, inner),
    }


def _dlf(said: Mapping[str, str], internal: bool) -> dict[str, str]:
    """Its pages name an address of this protocol in the region's VPC only, without TLS; the public one
    (`dlfnext.REGION.aliyuncs.com`) wants a signature that neither engine can make."""
    region = said.get("region", "")
    if not said.get("warehouse") or not _REGION.fullmatch(region):
        raise ConfigError(
            "a dlf catalog needs its region and its name: set PYICEBERG_CATALOG__LAKE__REGION, such as "
            "cn-hangzhou, and PYICEBERG_CATALOG__LAKE__WAREHOUSE to the name of the catalog"
        )
    if not internal and "uri" not in said:
        raise ConfigError(
            "DLF answers Iceberg's protocol inside a VPC of its region: its public address wants Aliyun's "
            "own signature, which neither PyIceberg nor Spark can make. Leave network out and run it there, "
            "or set PYICEBERG_CATALOG__LAKE__URI to an address that takes Amazon's signature"
        )
    return {
        "uri": f"http://{region}-vpc.dlf.aliyuncs.com/iceberg",
        **_signed(region, "DlfNext"),
        **_files(region, "-internal" if internal else ""),
    }


def _signed(region: str, name: str) -> dict[str, str]:
    """For PyIceberg and older releases of Java by the first word, for newer ones by the type: there the
    signature would else go on top of a sign-in by OAuth2."""
    return {
        SIGNED: "true",
        SIGNING_REGION: region,
        SIGNING_NAME: name,
        "rest.auth.type": "sigv4",
        "rest.auth.sigv4.delegate-auth-type": "none",
    }


def _files(region: str, inner: str) -> dict[str, str]:
    return {"s3.endpoint": f"https://oss-{region}{inner}.aliyuncs.com", "s3.region": region}


_PROFILES: Mapping[str, Callable[[Mapping[str, str], bool], dict[str, str]]] = {
    OSS_TABLES: _oss_tables,
    DLF: _dlf,
}
