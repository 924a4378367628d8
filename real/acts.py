"""What a run tries: each act gives rows for the table, and raises where it cannot go on."""

from collections.abc import Callable, Iterator

from aliyun.log.index_config import IndexConfig, IndexLineConfig

from real.asked import LANDED, ROWS, Asked
from real.judge import Judge
from real.limits import ended_keys, read_quota, write_quota
from real.report import FAILED, NOT_TRIED, OK
from real.verbs import Refused, Verbs
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ServiceError
from sls_io.wire.client import SlsClient

Row = tuple[str, str, str]
Act = Callable[[], Iterator[Row]]
_RUNS_MAX, _PAUSE_S = 12, 5.0
_LINES_OF_KEYS = ("keys", "identity", "project", "quota", "group")


class Acts:
    """The acts over one logstore and its table."""

    def __init__(self, asked: Asked) -> None:
        self._asked, self._verbs = asked, Verbs(asked)
        self._put = 0

    def all(self) -> Iterator[tuple[str, Act]]:
        """In their order: later ones use what earlier ones landed."""
        asked = self._asked
        yield "search index", self.index
        yield "doctor", self.doctor
        yield "vendor's Python client", self.judged
        yield "landing", self.landed
        yield "split and merge", self.split
        yield "soft delete", self.soft_delete
        yield "maintenance", self.maintained
        yield "write quota", lambda: write_quota(asked)
        yield "read quota", lambda: read_quota(asked)
        yield "keys that end", lambda: ended_keys(asked)

    def index(self) -> Iterator[Row]:
        """Soft deletion searches, so it needs one; a landing does not."""
        line = IndexLineConfig(token_list=[" "], case_sensitive=False)
        with SlsClient(self._asked.service()) as client:
            try:
                client.transport.create_index(self._asked.name, LANDED, IndexConfig(ttl=1, line_config=line))
            except ServiceError as error:
                yield "search index", NOT_TRIED, str(error)
            else:
                yield "search index", OK, "made"

    def doctor(self) -> Iterator[Row]:
        """All of it in a line, and each trial that is not fine or tells of the account."""
        said = self._verbs("doctor", fails=True)
        trials = said["trials"]
        fine = sum(trial["grade"] == "fine" for trial in trials)
        yield "doctor", OK if said["ok"] else FAILED, f"{fine} of {len(trials)} trials fine"
        for trial in trials:
            if trial["grade"] != "fine" or trial["name"] in _LINES_OF_KEYS:
                yield f"doctor: {trial['name']}", trial["grade"], trial["came"]

    def judged(self) -> Iterator[Row]:
        """The vendor's client and its signatures, compressions, split and merge, refusals."""
        with Judge(self._asked) as judge:
            for row, word, reason in judge.rows():
                yield f"client: {row}", word, reason

    def landed(self) -> Iterator[Row]:
        """Rows put, landed, proven, and pulled a second time."""
        yield "landing", OK, self._land(ROWS)

    def split(self) -> Iterator[Row]:
        """A shard split and merged again while rows come."""
        shard = self._open_shard()
        self._verbs("shards", "split", str(shard), "--execute")
        text = self._land(ROWS // 4)
        yield "split", OK, text
        self._verbs("shards", "merge", str(self._open_shard()), "--execute")
        yield "merge", OK, self._land(ROWS // 4)

    def soft_delete(self) -> Iterator[Row]:
        """Logs that are deleted for search are delivered all the same, so the second pull finds them."""
        now_s = int(SYSTEM_CLOCK.now())
        with SlsClient(self._asked.service()) as client:
            try:
                said = client.transport.delete_logs_v2(
                    project=self._asked.name,
                    logstore=LANDED,
                    from_time=now_s - 86_400,
                    to_time=now_s + 900,
                    query="*",
                )
            except ServiceError as error:
                yield "soft delete", NOT_TRIED, str(error)
                return
        deleted = (said.get_body() or {}).get("affectedRows")
        yield "soft delete", OK, f"the service says {deleted} deleted; {self._proven()}"

    def maintained(self) -> Iterator[Row]:
        """Small files written together, snapshots expired, strays swept; the proof holds."""
        self._verbs("table", "maintain", "--execute")
        yield "maintenance", OK, self._proven()

    def _land(self, rows: int) -> str:
        """Puts so many rows and runs landings until all are in the table; the proof in words."""
        self._verbs("load", "--rows", str(rows))
        self._put += rows
        landings = there = 0
        for _ in range(_RUNS_MAX):
            there += int(self._verbs("land")["rows"])
            landings += 1
            if there >= rows:
                return f"{there:,} rows in {landings} landings; {self._proven()}"
            SYSTEM_CLOCK.sleep(_PAUSE_S)  # the newest seconds are left for the next run
        raise Refused(f"{there:,} of {rows:,} rows landed in {landings} landings")

    def _proven(self) -> str:
        said = self._verbs("verify", "--pull")
        if not said["ok"]:
            raise Refused("verify --pull found what is not well; its own words are in verbs.log")
        return f"verify --pull: {self._put:,} rows, each once"

    def _open_shard(self) -> int:
        """The first by key: it has a right neighbour."""
        with SlsClient(self._asked.service()) as client:
            return min((s for s in client.shards() if not s.readonly), key=lambda s: s.begin_key).id
