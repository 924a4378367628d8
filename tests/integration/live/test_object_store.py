"""Object stores that are not Amazon's: what each refuses is refused here, too, and files come and go.

How a client reaches the real names without leaving the machine is told in `tests/backends/strict.py`.
"""

import pickle
from importlib import import_module
from pathlib import Path

import pytest
from pyarrow.fs import S3FileSystem

from pipelines.landing.catalogs.keys import KEYS_PROPERTY
from pipelines.landing.table.lake import Lake
from pipelines.landing.table.object_store import ObjectStoreIO, file_io
from pipelines.landing.table.trouble import is_storage, storage_trouble
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ConfigError
from tests.backends.places import Servers
from tests.backends.s3 import KEY_ID, KEY_SECRET
from tests.backends.strict import GOOGLE, OSS, R2, REQUEST_ID, TEMPORARY_KEY_ID

CHECKSUMS = ("AWS_REQUEST_CHECKSUM_CALCULATION", "AWS_RESPONSE_CHECKSUM_VALIDATION")
STORES = [
    ("oss", f"http://{OSS}"),
    ("s3", f"http://s3.{OSS}"),
    ("s3", f"http://{R2}"),
    ("s3", f"http://{GOOGLE}"),
]


def plain(servers: Servers, *, virtual: bool) -> S3FileSystem:
    """A client as whoever reads an endpoint's page would make it."""
    return S3FileSystem(
        access_key=KEY_ID,
        secret_key=KEY_SECRET,
        region="cn-hangzhou",
        endpoint_override=f"http://{OSS}",
        force_virtual_addressing=virtual,
        proxy_options=servers.s3.proxy,
    )


@pytest.mark.parametrize(
    ("virtual", "code", "call"),
    [(False, "SecondLevelDomainForbidden", "CreateMultipartUpload"), (True, "InvalidArgument", "UploadPart")],
)
def test_a_client_that_assumes_amazon_is_refused_and_the_stores_own_words_stand_in_the_error(
    virtual: bool, code: str, call: str, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in CHECKSUMS:
        monkeypatch.delenv(variable, raising=False)
    client, path = plain(servers, virtual=virtual), f"{servers.s3.new_bucket()}/file"
    with pytest.raises(OSError, match=code) as caught, client.open_output_stream(path) as stream:
        stream.write(b"rows")

    told = storage_trouble("oss://lake", caught.value)
    assert is_storage(caught.value)
    assert f"{call} was refused, {code}: " in told and f", request {REQUEST_ID})" in told
    assert "check the bucket and its region, the key and its secret" in told


def test_a_store_that_is_busy_is_not_called_a_wrong_key() -> None:
    busy = "AWS Error SERVICE_UNAVAILABLE during PutObject operation: Please reduce your request rate."
    assert storage_trouble("s3://lake", OSError(busy)).endswith("run it again, later where it stays so")
    closed = "AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 52, Server returned nothing"
    assert "whether the store answers" in storage_trouble("s3://lake", OSError(closed))


def test_a_store_that_is_busy_for_some_seconds_is_asked_again(servers: Servers) -> None:
    io = file_io(servers.s3.properties, "s3://lake/file")
    location = f"s3://{servers.s3.new_bucket()}/file"
    servers.s3.be_busy(4)
    with io.new_output(location).create(overwrite=True) as stream:
        stream.write(b"rows")
    servers.s3.be_busy(4)
    with io.new_input(location).open() as stored:
        assert stored.read() == b"rows"


def test_a_sentence_that_repeats_what_was_signed_is_left_out() -> None:
    """OSS and Amazon put the key id and the text that was signed into it."""
    signed = "AWS Error SIGNATURE_DOES_NOT_MATCH during PutObject operation: signed by LTAI4711"
    for text in (
        signed,
        signed.replace("SIGNATURE_DOES_NOT_MATCH", "UNKNOWN").replace(
            "signed by", "Unable to parse ExceptionName: SignatureDoesNotMatch Message: signed by"
        ),
    ):
        assert "LTAI" not in storage_trouble("oss://lake", OSError(text))


@pytest.mark.parametrize(("scheme", "endpoint"), STORES)
def test_files_come_and_go_with_an_endpoint_and_keys(
    scheme: str, endpoint: str, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in CHECKSUMS:
        monkeypatch.delenv(variable, raising=False)
    bucket = servers.s3.new_bucket()
    location = f"{scheme}://{bucket}/a/file"
    region = {} if OSS in endpoint else {"s3.region": "auto"}
    io = file_io({**servers.s3.oss_properties, **region, "s3.endpoint": endpoint}, location)
    assert isinstance(pickle.loads(pickle.dumps(io)), ObjectStoreIO)

    with io.new_output(location).create() as stream:
        stream.write(b"rows" * 3_000_000)
    with io.new_input(location).open() as opened:
        assert opened.read() == b"rows" * 3_000_000
    io.delete(location)
    assert not io.new_input(location).exists()
    assert servers.s3.files(bucket) == set()


def test_a_small_file_is_one_request_and_leaves_nothing_while_it_is_open(servers: Servers) -> None:
    """What was sent as an upload of parts says so in its tag, and is a part in the store until it ends."""
    bucket = servers.s3.new_bucket()
    client = import_module("boto3").client(
        "s3",
        endpoint_url=servers.s3.endpoint,
        region_name="us-east-1",
        aws_access_key_id=KEY_ID,
        aws_secret_access_key=KEY_SECRET,
    )
    io = file_io(servers.s3.properties, f"s3://{bucket}/")
    for name, size, parts in (("small", 1_000_000, False), ("large", 12_000_000, True)):
        with io.new_output(f"s3://{bucket}/{name}").create(overwrite=True) as stream:
            stream.write(b"r" * size)
            assert bool(client.list_multipart_uploads(Bucket=bucket).get("Uploads")) is parts
        assert ("-" in client.head_object(Bucket=bucket, Key=name)["ETag"]) is parts
        assert len(io.new_input(f"s3://{bucket}/{name}")) == size


def test_keys_of_a_provider_are_renewed_before_they_end(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first ones have nearly ended and are not known to the store."""
    ends_s = SYSTEM_CLOCK.now()
    (tmp_path / "store_keys.py").write_text(
        f"given = [('gone', 'gone', 'gone', {ends_s + 60}), "
        f"({TEMPORARY_KEY_ID!r}, 'secret', 'token', {ends_s + 3600})]\n"
        "asked = []\n\n\ndef keys():\n    asked.append(1)\n    return given[min(len(asked), 2) - 1]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    location = f"oss://{servers.s3.new_bucket()}/file"
    said = {**servers.s3.oss_properties, KEYS_PROPERTY: "import:store_keys:keys"}
    io = file_io(said, location)
    with pytest.raises(OSError, match="INVALID_ACCESS_KEY_ID"):
        io.new_output(location).create(overwrite=True).close()
    for _ in range(2):
        io.new_output(location).create(overwrite=True).close()
    assert len(import_module("store_keys").asked) == 2, "asked for once they near their end, and no more"


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"warehouse": "oss://bucket/lake"}, "needs the endpoint of its region"),
        ({"warehouse": "s3://bucket/lake", KEYS_PROPERTY: "a.java.Class"}, "expected one of env, profile"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_asked(
    properties: dict[str, str], said: str, tmp_path: Path
) -> None:
    lake = Lake({"type": "sql", "uri": f"sqlite:///{tmp_path / 'catalog.sqlite'}", **properties})
    with pytest.raises(ConfigError, match=said):
        lake.catalog()
