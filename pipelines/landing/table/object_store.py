"""Files in an object store that speaks S3's protocol: what each kind of store takes, with keys renewed.

Amazon's clients assume Amazon: a bucket in the path for an address of one's own, bodies in chunks with a
checksum behind them. Alibaba's OSS documents to refuse both (`SecondLevelDomainForbidden`; `InvalidArgument`
for an `x-amz-content-sha256` that it does not know), and other stores know no such bodies either.

PyIceberg makes its storage by the scheme of an address. Importing this module puts `ObjectStoreIO` in that
place for all of S3's schemes, so drivers, tasks and whatever a REST catalog names get the same.
"""

import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow.fs import AwsStandardS3RetryStrategy
from pyiceberg.io import (
    S3_RETRY_STRATEGY_IMPL,
    SCHEMA_TO_FILE_IO,
    FileIO,
    InputFile,
    InputStream,
    load_file_io,
)
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import FileScanTask
from pyiceberg.typedef import EMPTY_DICT, Properties

from pipelines.landing.catalogs.keys import KEYS_AHEAD_S, LENT_FOR, PAIR, SIGNING, keys_of, with_keys
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ConfigError, printable
from sls_io.values.side_by_side import answers
from sls_io.wire.credentials import resolve
from sls_io.wire.keys import Keys

SCHEMES = ("s3", "s3a", "s3n", "oss")
_ENDPOINT, _REGION, _VIRTUAL = "s3.endpoint", "s3.region", "s3.force-virtual-addressing"
_OSS_HOST = re.compile(
    r"(?:.*\.)?(?:vpc100-)?oss-(?P<region>[a-z0-9-]+?)(?:-internal)?\.aliyuncs\.com|.*\.oss\.aliyuncs\.com"
)
"""`oss-REGION[-internal].aliyuncs.com`, also behind `s3.`; `oss-accelerate[-overseas]` names no region
(vendor documentation, "Regions and endpoints")."""
_NO_REGION = "accelerate"
_ANY_REGION = "us-east-1"
_CLIENTS_MAX = 64
_FETCHED_BYTES_MAX = 1 << 20
"""A file of at most so much is fetched whole."""
_TRIES_MAX = 5
"""Of a request that a store is too busy for. PyArrow's three are over in 1.5 s (measured, as these), and a
store that begins to spread a bucket refuses for longer; five take some 7 s."""
_CHECKSUMS = ("AWS_REQUEST_CHECKSUM_CALCULATION", "AWS_RESPONSE_CHECKSUM_VALIDATION")
_WHERE_REQUIRED = "when_required"


def file_io(properties: Properties, location: str) -> FileIO:
    """The storage of `location`, by its scheme."""
    return load_file_io(properties, location)


def on_oss(properties: Mapping[str, str], scheme: str = "") -> bool:
    """Whether files lie in Alibaba's OSS, by the scheme of their address or by the endpoint."""
    schemes = (scheme, urlsplit(properties.get("warehouse", "")).scheme)
    return "oss" in schemes or _OSS_HOST.fullmatch(_host(properties)) is not None


def completed(properties: Mapping[str, str], scheme: str = "") -> dict[str, str]:
    """`properties` with what the store needs that nobody has said. Raises ConfigError for OSS without an
    endpoint: the next best would be Amazon's, and a bucket of that name may be anybody's; and for another
    store's without a scheme: taken for https, a store of plain HTTP answered with what TLS calls a version;
    and for half a pair of keys.

    Worked example: `oss-cn-hangzhou-internal.aliyuncs.com` becomes an https address, with the region
    `cn-hangzhou` and the bucket in the host's name. `oss-accelerate.aliyuncs.com` names no region, and
    signing wants one: `us-east-1` stands for any. `http://127.0.0.1:9000` is no OSS, and stays as it is.
    """
    found = dict(properties)
    if found.get(_ENDPOINT) and "://" not in found[_ENDPOINT]:
        if not _OSS_HOST.fullmatch(_host(found)):
            raise ConfigError(
                f"{_ENDPOINT} is {printable(found[_ENDPOINT])}: write http:// or https:// before it, as the "
                "store speaks"
            )
        found[_ENDPOINT] = f"https://{found[_ENDPOINT]}"
    _check_pair(found)
    if not on_oss(found, scheme):
        return found
    if not found.get(_ENDPOINT):
        raise ConfigError(
            "an oss:// warehouse needs the endpoint of its region: set PYICEBERG_CATALOG__LAKE__S3__ENDPOINT "
            "to https://oss-REGION.aliyuncs.com, or https://oss-REGION-internal.aliyuncs.com inside Aliyun"
        )
    named = _OSS_HOST.fullmatch(_host(found))
    region = (named["region"] if named else None) or _NO_REGION
    known = _ANY_REGION if region.startswith(_NO_REGION) else region
    if "client.region" not in found:
        found.setdefault(_REGION, known)
    found.setdefault(_VIRTUAL, "true")
    return found


def _check_pair(properties: Mapping[str, str]) -> None:
    """Raises ConfigError for half a pair of keys: pyarrow refuses it while a file is opened, which looked as
    if the file were damaged."""
    key, secret = (
        any(properties.get(f"{family}.{name}") for family in ("s3", "client")) for name in PAIR[:2]
    )
    if key != secret:
        lacking = "SECRET_ACCESS_KEY" if key else "ACCESS_KEY_ID"
        raise ConfigError(
            f"of the store's key pair PYICEBERG_CATALOG__LAKE__S3__{lacking} is not set: set both, or "
            "neither where the keys come from elsewhere"
        )


def send_whole_bodies(properties: Mapping[str, str]) -> dict[str, str]:
    """Have Amazon's library leave checksums out where no protocol asks for them, from now on in this process
    and those that it starts; what it is told, for processes on other machines.

    Nothing for Amazon's own endpoint. No option of pyarrow's or of Iceberg's says this: the library reads its
    variables when it makes a client. What a person has set stays.
    """
    if not (properties.get(_ENDPOINT) or on_oss(properties)):
        return {}
    return {variable: os.environ.setdefault(variable, _WHERE_REQUIRED) for variable in _CHECKSUMS}


class ObjectStoreIO(PyArrowFileIO):
    """PyIceberg's storage over pyarrow, for any store that speaks S3's protocol.

    A client has its keys for life, so one is made anew for keys that have changed, and only then: it has
    connections, and a task opens many files. Under a lock, since the threads of one task share it. Pickled it
    is its properties alone; the worker makes its clients, and finds its keys, where it is.

    Worked example: keys end at 12:00 and are renewed some time ahead. A file that is opened just before is
    read with the old client to its end; the next one that is opened gets the new client.
    """

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__(properties)
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._others = PyArrowFileIO(self.properties)
        self._made: dict[tuple[str, str | None], tuple[Keys | None, Any]] = {}
        self._fetched: dict[str, bytes] = {}
        self._credentials = keys_of(self.properties)
        self.fs_by_scheme = self._filesystem

    def __getstate__(self) -> dict[str, Any]:
        return {"properties": self.properties}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = dict(state)
        self._begin()

    def new_input(self, location: str) -> InputFile:  # type: ignore[override]
        """As PyIceberg's; from memory where the content is here (see `ahead`), and the first time only.

        Story: a bit turns over on the way. Whoever doubts what it reads looks at the file again, and that
        second look must be at the store.
        """
        content = self._fetched.pop(location, None)
        return super().new_input(location) if content is None else _Fetched(location, content)

    def ahead(self, tasks: Iterable[FileScanTask]) -> Iterator[FileScanTask]:
        """The files in order, the content of the next ones on its way: each opens from memory while it is the
        one that was given. A large one is opened as ever, and so is one that could not be fetched, or is not
        as long as its manifest says: whoever reads it says why.

        Worked example: 4,000 files of 64 KB, each read in three answers of 20 ms, are four minutes of waiting
        one after another, and 15 s so. At most 16 MB are held.
        """
        try:
            for task, content in answers(self._content, tasks):
                self._fetched = {} if content is None else {task.file.file_path: content}
                yield task
        finally:
            self._fetched = {}

    def _content(self, task: FileScanTask) -> bytes | None:
        size = task.file.file_size_in_bytes
        if size > _FETCHED_BYTES_MAX:
            return None
        try:
            with super().new_input(task.file.file_path).open() as stream:
                content = bytes(stream.read(size + 1))
        except OSError:
            return None
        return content if len(content) == size else None

    def _filesystem(self, scheme: str, netloc: str | None = None) -> Any:
        """A client of the store, with keys that have not nearly ended."""
        if scheme not in SCHEMES:
            return self._others.fs_by_scheme(scheme, netloc)
        with self._lock:
            keys, client = self._made.get((scheme, netloc), (None, None))
            if keys is not None and keys.expires_s - SYSTEM_CLOCK.now() >= KEYS_AHEAD_S:
                return client
            fresh = self._fresh()
            # Their end may be said anew each time, and a client has connections.
            if client is None or (fresh and keys and fresh[:3] != keys[:3]):
                said = frozenset(with_keys(completed(self.properties, scheme), fresh).items())
                client = _client(os.getpid(), scheme, netloc, said)
            self._made[scheme, netloc] = (fresh, client)
            return client

    def _fresh(self) -> Keys | None:
        if LENT_FOR in self.properties:
            found: Keys | None = import_module(SIGNING).lent(self.properties)
            return found
        return resolve(self._credentials) if self._credentials else None


class _Fetched(InputFile):
    """A file whose content is here."""

    def __init__(self, location: str, content: bytes) -> None:
        super().__init__(location)
        self._content = content

    def __len__(self) -> int:
        return len(self._content)

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> InputStream:
        stream: InputStream = pa.BufferReader(self._content)
        return stream


def one_after_another(io: FileIO, tasks: Sequence[FileScanTask]) -> Iterator[FileScanTask]:
    """The files in order, for whoever reads each before it asks for the next; see `ahead`."""
    return io.ahead(tasks) if isinstance(io, ObjectStoreIO) and len(tasks) > 1 else iter(tasks)


@lru_cache(maxsize=_CLIENTS_MAX)
def _client(_process: int, scheme: str, netloc: str | None, said: frozenset[tuple[str, str]]) -> Any:
    """The client of a process for a store and its keys: each load of a table asks for one.

    One that is made anew costs 9 ms and a handshake, and a look of a sensor is 10 ms of work. Of a process,
    for a child has the memory of its client and not the threads behind it.
    """
    properties = dict(said)
    send_whole_bodies(properties)
    made = PyArrowFileIO(properties).fs_by_scheme(scheme, netloc)
    # A strategy of somebody's for tries is not among what a client says of itself.
    return made if S3_RETRY_STRATEGY_IMPL in properties else _patient(made)


def _patient(made: Any) -> Any:
    """The same client, which tries more often, and sends a file of less than 10 MB as one request and not as
    three: the beginning of an upload, its part, its end. PyIceberg has no property for either.

    A small file that was begun and not closed leaves nothing in the store; of the three it leaves a part that
    nobody lists and somebody pays. What the store refuses is told at the close and not at the opening.
    """
    make, (options,) = made.__reduce__()
    tries = AwsStandardS3RetryStrategy(max_attempts=_TRIES_MAX)
    return make({**options, "allow_delayed_open": True, "retry_strategy": tries})


def _host(properties: Mapping[str, str]) -> str:
    endpoint = properties.get(_ENDPOINT, "")
    return (urlsplit(endpoint if "://" in endpoint else f"//{endpoint}").hostname or "").lower()


for _scheme in SCHEMES:
    SCHEMA_TO_FILE_IO[_scheme] = [f"{__name__}.{ObjectStoreIO.__name__}"]
