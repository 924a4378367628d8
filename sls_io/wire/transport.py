"""The vendor SDK's LogClient over our own HTTP exchange.

Only `_send` and what lies below it is replaced: every management call of the SDK works, with

- pooled connections (`http.py`); no proxies but one that the settings name; TLS always verified;
- one deadline for the whole call, tries and waits included, however slowly an answer trickles;
- retries by the tables of `retries.py`, counted in `Transport.retries`;
- redirects never followed: a signed request goes where it was addressed, or nowhere;
- errors from our tree. Their text never holds a key, nor anything of a call that carries logs.

Signing is the SDK's (`signature.py`): v1, or v4 when `service.region` is set.

Why not the SDK's own sending. It tries ten times, a second apart, under a time-out of 120 s each: up to 20
minutes inside one heartbeat, while the service has long given the shards to somebody else. It follows the
environment's proxies and netrc, and the text of an answer that it cannot parse has the whole page in it
(docs/decisions/0011).
"""

import contextlib
import re
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NoReturn
from urllib.parse import quote, urlencode

from aliyun.log import LogClient
from aliyun.log import credentials as vendor_credentials
from aliyun.log.version import API_VERSION, USER_AGENT

from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.deadline import current
from sls_io.values.errors import (
    ConfigError,
    ConnectFailed,
    SlsError,
    TransportError,
    TransportTimeout,
    printable,
)
from sls_io.values.settings import Service
from sls_io.wire.credentials import resolve
from sls_io.wire.http import Answer, Lost, Wire
from sls_io.wire.json_body import NOT_JSON, parse_json
from sls_io.wire.keys import Keys
from sls_io.wire.refusal import SKEWED, ErrorAnswer
from sls_io.wire.retries import AT_ONCE, SOON, RetryRule, rule_for
from sls_io.wire.signature import SignatureV1, SignatureV4

_HOST_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
DATE_MIN, DATE_MAX = 946_684_800, 7_258_118_400
"""2000 to 2199: a service's Date outside of it is broken, and nothing may be planned by it."""
CONNECT_S = 5.0
"""A service that takes longer to take a connection is not there."""
KEYS_AHEAD_S = 120.0
"""Keys that end within this are asked for again before they do."""
_KEYS_PAUSE_S = 5.0
"""A provider that has nothing newer yet is not asked at every call."""
_DATE_S = 2.0
"""A Date has whole seconds, and was on its way: two that differ by less say the same."""
_DOUBT = "; whether the service acted on it is not known"


@dataclass(slots=True)
class _Shared:
    """What a transport and its copies with other deadlines have in common.

    One clock's skew, one pair of keys and one pool for all copies: what the heartbeat's copy, with its
    short deadline, learns of the service's clock or of renewed keys serves the calls that it was copied
    from. `skew_s` is added to our clock where we sign.
    """

    wire: Wire
    keys: Keys
    keys_asked_s: float = float("-inf")  # our monotonic clock when a provider was last asked ahead
    lock: threading.Lock = field(default_factory=threading.Lock)
    renewing: threading.Lock = field(default_factory=threading.Lock)
    retries: Counter[str] = field(default_factory=Counter)
    skew_s: float = 0.0
    service_date: tuple[float, float] | None = None  # its Date, our monotonic clock when it came


@dataclass(frozen=True, slots=True)
class _FailedTry:
    """A try without a 200: what is raised where it was the last, the name it is counted under, and when it
    is tried again; None: never."""

    error: SlsError
    code: str
    rule: RetryRule | None


@dataclass(frozen=True, slots=True)
class _Call:
    """One request before it is signed. `vendor`: made by a method of the SDK.

    `repeatable` decides what a lost answer costs. A heartbeat and a checkpoint say a state, so saying it
    twice changes nothing; what is made twice is "there already". A put stores its group once for each time
    that it arrives; a split that arrives twice is refused the second time, as if the first had never been
    done. Those two end with an error that says that nobody knows. A gateway's 504 is a lost answer, too.
    """

    method: str
    project: str
    resource: str
    params: dict[str, Any]
    headers: dict[str, str]
    body: bytes
    hash_body: bool = True
    vendor: bool = False

    @property
    def private(self) -> bool:
        """Whether the request or its answer carries logs."""
        return any("protobuf" in v for k, v in self.headers.items() if k in ("Accept", "Content-Type"))

    @property
    def repeatable(self) -> bool:
        """Whether sending it twice does no harm, should the first answer be lost."""
        return self.method != "POST" or "/shards/" not in self.resource

    def __str__(self) -> str:
        return printable(f"{self.method} {self.resource} of project {self.project or '-'}")


@cache
def _program() -> str:
    """Our name and version; the name alone where we were only put on the path."""
    try:
        return f"sls-lake/{version('sls-lake')}"
    except PackageNotFoundError:
        return "sls-lake"


class Transport(LogClient):
    """The SDK's client for `service`, sending through our exchange. Safe to use from many threads.

    `deadline_s` bounds every call as a whole; None leaves it to `service.tries_max` tries of
    `CONNECT_S + read_timeout_s` each. Errors are those of `sls_io.values.errors`; the SDK's own
    fallbacks still see a LogException. The SDK's `timeout` is not used. Not picklable on purpose:
    send the Service, build another there.
    """

    def __init__(
        self,
        service: Service,
        *,
        deadline_s: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
        _shared: _Shared | None = None,
    ) -> None:
        self.service, self._clock, self._deadline_s = service, clock, deadline_s
        self._shared = _shared or _Shared(
            Wire(service.endpoint, clock, proxy=service.proxy_address), resolve(service.credentials)
        )
        # `source` is given so that the SDK does not look up a host name of its own.
        provider: Any = self
        super().__init__(service.endpoint, source="", credentials_provider=provider, region=service.region)
        self._session.close()  # type: ignore[attr-defined]  # the SDK's own, never used here
        region, now = service.region, self._now
        self._auth = SignatureV4(self, region, now) if region else SignatureV1(self, now)
        # Names of settings only: the service's logs say who asked, and nothing that is secret.
        self.set_user_agent(f"{_program()} ({service.asker}), {USER_AGENT}")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Transport holds keys and sockets: send its Service and build another there")

    def __repr__(self) -> str:
        return f"Transport({self.service.endpoint}, {self.service.full_name})"

    def with_deadline(self, deadline_s: float | None) -> "Transport":
        """The same connections, counters and keys under another deadline per call, in seconds."""
        return Transport(self.service, deadline_s=deadline_s, clock=self._clock, _shared=self._shared)

    def get_credentials(self) -> object:
        """The pair to sign with, in the SDK's form: this object is the SDK's credentials provider."""
        return vendor_credentials.Credentials(*self._shared.keys[:3])

    @property
    def retries(self) -> Mapping[str, int]:
        """Tries made again so far, by error code or kind of failure; `with_deadline` copies included."""
        with self._shared.lock:
            return dict(self._shared.retries)

    def service_now(self) -> float | None:
        """The service's own time, unix seconds: Date of its last answer plus what passed since.

        None before the first answer. Date has whole seconds, so this is up to a second early.

        The machine's own clock plays no part. Story: a machine is ten minutes ahead. By its clock the end
        of a window would lie ten minutes after the newest log, and an hour that still gets logs would be
        called complete.

        Worked example: a Date of 14:13:20 came 2.5 s ago by the monotonic clock: it is 14:13:22.5, or up to
        a second later.
        """
        known = self._shared.service_date
        return None if known is None else known[0] + self._clock.monotonic() - known[1]

    def close(self) -> None:
        """Close idle connections; `with_deadline` copies use the same ones."""
        self._shared.wire.close()

    def exchange(
        self,
        method: str,
        resource: str,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> tuple[bytes, dict[str, str]]:
        """One call to the service's project: (body of the 200 untouched, lower-case headers).

        Raises ServiceError (or CursorExpired, ShardGone), Throttled, TransportTimeout or
        ConnectFailed once tries or time are used up.
        """
        call = _Call(method, self.service.project, resource, dict(params or {}), dict(headers or {}), body)
        answer = self._exchange(call)
        return answer.body, answer.headers

    def _send(
        self,
        method: str,
        project: str | None,
        body: bytes | str | None,
        resource: str,
        params: dict[str, Any] | None,
        headers: dict[str, str],
        respons_body_type: str = "json",
        compute_content_hash: bool = True,
    ) -> tuple[Any, dict[str, str]]:
        """What every call of the SDK goes through: (parsed JSON or bytes, headers)."""
        raw = body.encode("utf-8") if isinstance(body, str) else bytes(body or b"")
        kept = {k: v for k, v in (params or {}).items() if v is not None}
        call = _Call(
            method, project or "", resource, kept, dict(headers), raw, compute_content_hash, vendor=True
        )
        answer = self._exchange(call)
        if respons_body_type != "json":
            return answer.body, answer.headers
        parsed = parse_json(answer.body)
        if parsed is NOT_JSON:
            raise self._error(call, ErrorAnswer(answer, "BadResponse", "a success that is not JSON"), None)
        return parsed, answer.headers

    def _now(self) -> float:
        return self._clock.now() + self._shared.skew_s

    def _exchange(self, call: _Call) -> Answer:
        """Try until there is a 200, an answer that no rule repeats, or no time for another try.

        The last try may have a few milliseconds only. That it was not answered says nothing. The call fails
        for what the service said before it, so that is raised.

        Worked example: the deadline is 10 s. The first try is throttled and is followed by a wait of up to
        0.5 s, and so on; the fifth begins at 9.9 s and gets no answer in 0.1 s. `Throttled` is raised,
        which its caller can wait for, and not a time-out, which says nothing of why. A put is the
        exception: its fifth try may have been done, and "throttled" would say that it was not.
        """
        if call.project and not _HOST_LABEL.fullmatch(call.project):
            raise ConfigError("project: letters, digits and inner hyphens only; it is part of a host name")
        begun = self._clock.monotonic()
        until = begun + self._deadline_s if self._deadline_s is not None else float("inf")
        failures = 0
        said: SlsError | None = None
        while True:
            self._renew_ahead()
            used, used_skew_s = self._shared.keys, self._shared.skew_s
            try:
                answer = self._once(call, until)
            except Lost as lost:
                failed = _unanswered(call, lost)
                self._tell(lost, begun)
                cut_short = lost.timeout and until - self._clock.monotonic() < self.service.read_timeout_s
                # A write that was sent may have been done: what was said before it is no longer true.
                if said and cut_short and (call.method == "GET" or not lost.sent):
                    raise said from lost
            else:
                if answer.status == 200:
                    return answer
                refusal = ErrorAnswer.read(answer)
                rule = self._corrected(refusal, used, used_skew_s) or rule_for(answer.status, refusal.code)
                if rule is SOON and not call.repeatable:
                    raise _undecided(call, refusal)
                said = self._error(call, refusal, rule)
                failed = _FailedTry(said, refusal.code, rule)
            failures += 1
            self._pause(failed, failures, until)

    def _tell(self, lost: Lost, begun_s: float) -> None:
        """Whoever waits hears, once, for what: a service that hangs would else look like work."""
        if lost.timeout:
            waited_s = round(self._clock.monotonic() - begun_s, 1)
            current().said(f"the log service at {self.service.endpoint}", waited_s)

    def _pause(self, failed: _FailedTry, failures: int, until_s: float) -> None:
        """Wait for the next try. Raises what failed where there is none.

        A wait that would end at the deadline or after it is not begun: what failed is raised at once, and
        the caller has the rest of its time.
        """
        rule = failed.rule
        wait = rule.wait(failures) if rule else 0.0
        late = self._clock.monotonic() + wait >= until_s
        if rule is None or late or failures >= self.service.tries_max:
            raise failed.error
        with self._shared.lock:
            self._shared.retries[failed.code] += 1
        self._clock.sleep(wait)

    def _corrected(self, refusal: ErrorAnswer, used: Keys, used_skew_s: float) -> RetryRule | None:
        """Whether we can do better at once: with the service's own clock, or with fresh keys.

        Story: a laptop wakes up an hour behind. Its first call is refused as too skewed, with the service's
        Date beside the refusal; the second is signed by that, and so is each one after it. A service whose
        Date is wrong itself refuses the second, too, and its Date says nothing new: that is its answer.

        Keys that were refused are renewed once for each pair: `_renewed` is true only where another pair
        came of it.
        """
        if refusal.code in SKEWED and self._shared.service_date:
            # Our clock is wrong by more than the service bears; its Date header says by how much.
            self._shared.skew_s = self._shared.service_date[0] - self._clock.now()
            if abs(self._shared.skew_s - used_skew_s) > _DATE_S:
                return AT_ONCE
        if refusal.of_keys and self._renewed(used, refused=True):
            return AT_ONCE
        return None

    def _renewed(self, used: Keys, *, refused: bool = False) -> bool:
        """Whether there are other keys now than the `used` ones, found by another thread or given by the
        provider. A provider that fails in the middle of the work leaves the keys as they are.

        Story: eight threads pull with keys that end. Each is refused, and each comes here with the old pair
        in `used`. The first one through the lock asks the provider; the other seven find that the pair is
        another one already, and ask nobody.
        """
        with self._shared.renewing:
            if self._shared.keys == used:
                with contextlib.suppress(ConfigError):
                    self._shared.keys = resolve(self.service.credentials, refused=refused)
            # Their end may be said anew each time.
            return self._shared.keys[:3] != used[:3]

    def _renew_ahead(self) -> None:
        """Ask for keys again that are about to end, so that no call has to fail for it.

        Worked example: keys end at 12:00:00. From 11:58:00 on each call asks the provider, though not twice
        in 5 s; one that has nothing newer leaves the old ones. After 12:00:00 each call asks: with these it
        would be refused anyway.
        """
        shared = self._shared
        left_s = shared.keys.expires_s - self._now()
        if left_s > KEYS_AHEAD_S:
            return
        if left_s > 0 and self._clock.monotonic() - shared.keys_asked_s < _KEYS_PAUSE_S:
            return
        shared.keys_asked_s = self._clock.monotonic()
        self._renewed(shared.keys)

    def _once(self, call: _Call, until_s: float) -> Answer:
        """Sign and send once. Raises Lost when there is no whole answer.

        One try gets `CONNECT_S` and `read_timeout_s` together, and never more than what is left of the
        whole call. The project is in `Host` and not in the address that is connected to, so loopback, which
        knows no `demo.127.0.0.1`, works without a resolver.
        """
        service, wire = self.service, self._shared.wire
        headers = dict(call.headers)
        headers["Content-Length"] = str(len(call.body))
        # The vendor's clients say 0 where there is no body, and it is a signed header: left out, the
        # signature would be another one than theirs.
        if not call.body:
            headers["x-log-bodyrawsize"] = "0"
        headers |= {
            "Host": f"{call.project}.{wire.host}" if call.project else wire.host,
            "User-Agent": self._user_agent,  # type: ignore[attr-defined]
            "x-log-apiversion": API_VERSION,
        }
        self._auth.sign_request(
            call.method,
            call.resource,
            dict(call.params),
            headers,
            call.body or None,
            compute_content_hash=call.hash_body,
        )
        # The SDK signs the path as it is; on the wire a "?" or "#" inside it would start something else.
        target = quote(call.resource, safe="!$%&'()*+,/:;=@[]~")
        if call.params:
            target += "?" + urlencode(call.params, doseq=True)
        connect_s = min(CONNECT_S, service.read_timeout_s)
        longest = self._clock.monotonic() + connect_s + service.read_timeout_s
        answer = wire.send(
            call.method,
            target,
            headers,
            call.body,
            connect_timeout_s=connect_s,
            until_s=min(until_s, longest),
        )
        self._note_date(answer)
        return answer

    def _note_date(self, answer: Answer) -> None:
        """Remember the service's time. A Date that nobody can mean says nothing."""
        try:
            said = parsedate_to_datetime(answer.headers.get("date", ""))
            at = (said if said.tzinfo else said.replace(tzinfo=UTC)).timestamp()
        except (ValueError, TypeError, OverflowError, IndexError):
            return
        if not DATE_MIN <= at <= DATE_MAX:
            return
        self._shared.service_date = (at, self._clock.monotonic())

    def _error(self, call: _Call, refusal: ErrorAnswer, rule: RetryRule | None) -> SlsError:
        return refusal.error(
            self.service,
            call.project,
            self._shared.keys,
            private=call.private,
            vendor=call.vendor,
            throttled=rule is not None and rule.throttled,
        )


def _unanswered(call: _Call, lost: Lost) -> _FailedTry:
    text = f"{call}: {lost.reason}{_DOUBT if lost.sent and not call.repeatable else ''}"
    rule = SOON if not lost.hopeless and (call.repeatable or not lost.sent) else None
    if lost.timeout:
        return _FailedTry(TransportTimeout(text), "TransportTimeout", rule)
    return _FailedTry(ConnectFailed(text), "ConnectFailed", rule)


def _undecided(call: _Call, refusal: ErrorAnswer) -> TransportError:
    """The error for an answer that may come from in front of the service, or from the middle of its work."""
    status, request_id = refusal.answer.status, refusal.request_id or "-"
    return TransportError(f"{call}: {refusal.code} (HTTP {status}, request {request_id}){_DOUBT}")
