"""`talk`, then flags: the vendor's OpenAPI SDK for Python, one command a line (conformance/program.py);
`model`: what its API model says, tried (conformance/openapi/model.py).

It puts and pulls through the SDK's `execute`: its own PutLogs has no hash key, and its PullLogs takes the
answer for JSON, which pages are not.
"""

import argparse
from typing import Any

from alibabacloud_sls20201230 import models
from alibabacloud_tea_openapi import utils_models
from aliyun_log_fastpb import deserialize_log_group_list
from darabonba.runtime import RuntimeOptions

from conformance.openapi.client import made, refusal
from conformance.openapi.model import tell_differences
from conformance.telling import GROUPS_A_PULL, Puts, obey, once, tell, tell_log
from sls_io.values.clock import SYSTEM_CLOCK


class Spoken:
    """The commands."""

    def __init__(self, flags: argparse.Namespace) -> None:
        self._client, self._project, self._puts = made(flags), flags.project, Puts(flags.text)
        self.retries = 0

    def obey(self, command: str, store: str, *words: str) -> None:
        """Do one command."""
        client, project = self._client, self._project
        if command == "project":
            client.create_project(models.CreateProjectRequest(project_name=store, description=""))
        elif command == "store":
            request = models.CreateLogStoreRequest(logstore_name=store, shard_count=int(words[0]), ttl=1)
            client.create_log_store(project, request)
        elif command == "split":
            client.split_shard(project, store, words[0], models.SplitShardRequest(key=words[1]))
        elif command == "merge":
            client.merge_shard(project, store, words[0])
        elif command == "put":
            self._put(store, words[0], int(words[1]), words[2])
        elif command == "delete":
            everything = models.DeleteLogsRequest(from_=0, to=2**32 - 1, query="*")
            tell("deleted", rows=client.delete_logs(project, store, everything).body.affected_rows)
        elif command == "read":
            for shard in client.list_shards(project, store).body:
                self._read(store, shard.shard_id, words[0], words[1])
        else:
            self._group(store, words[0])

    def _group(self, store: str, group: str) -> None:
        """Make it, hold all shards, tell their logs, save each end and see it kept."""
        client, place = self._client, (self._project, store, group)
        request = models.CreateConsumerGroupRequest(consumer_group=group, timeout=60, order=False)
        client.create_consumer_group(self._project, store, request)
        held: list[int] = []
        for _ in range(2):
            beat = models.ConsumerGroupHeartBeatRequest(consumer="me", body=held)
            held = client.consumer_group_heart_beat(*place, beat).body
        ends = {shard: self._read(store, shard, "begin", "lz4") for shard in held}
        for shard, end in ends.items():
            client.consumer_group_update_check_point(
                *place,
                models.ConsumerGroupUpdateCheckPointRequest(
                    checkpoint=end, shard=shard, consumer="me", force_success=False
                ),
            )
        kept = client.get_check_point(*place, models.GetCheckPointRequest()).body
        tell("kept", right={c.shard: c.checkpoint for c in kept} == ends)

    def _put(self, store: str, prefix: str, count: int, kind: str) -> None:
        def put(key: str, logs: list[dict[str, str]]) -> None:
            at = int(SYSTEM_CLOCK.now())
            items = [{"Time": at, "Contents": [{"Key": k, "Value": v} for k, v in x.items()]} for x in logs]
            body = {"LogItems": items, "LogTags": [], "Topic": prefix, "Source": "127.0.0.1"}
            path, headers = f"/logstores/{store}/shards/route?key={key}", {"x-log-compresstype": kind}
            self.retries += once(
                lambda: self._call("PutLogs", "POST", path, dict(headers), body=body), refusal
            )

        self._puts.each(store, prefix, count, put)

    def _read(self, store: str, shard: int, begin: str, kind: str) -> str:
        """Tell what stands between `begin` and the end, which it returns."""
        cursors = [
            self._client.get_cursor(
                self._project, store, str(shard), models.GetCursorRequest(from_=at)
            ).body.cursor
            for at in (begin, "end")
        ]
        cursor, end = cursors
        while cursor != end:
            headers = {"accept": "application/x-protobuf", "Accept-Encoding": kind}
            query = {"cursor": cursor, "count": str(GROUPS_A_PULL)}
            path = f"/logstores/{store}/shards/{shard}?type=log"
            answer = self._call("PullLogs", "GET", path, headers, query=query)
            for group in deserialize_log_group_list(answer["body"])["logGroupList"]:
                for log in group["LogItems"]:
                    contents = {c["Key"]: c["Value"] for c in log["Contents"]}
                    tell_log(shard, group["Topic"], group["Source"], contents)
            cursor = answer["headers"]["x-log-cursor"]
        return str(end)

    def _call(self, action: str, method: str, path: str, headers: dict[str, str], **more: Any) -> Any:
        params = utils_models.Params(
            action=action, version="2020-12-30", protocol="HTTPS", pathname=path, method=method,
            auth_type="AK", style="ROA", req_body_type="protobuf",
            body_type="byte" if method == "GET" else "none",
        )  # fmt: skip
        request = utils_models.OpenApiRequest(host_map={"project": self._project}, headers=headers, **more)
        return self._client.execute(params, request, RuntimeOptions())


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("do", choices=("talk", "model"))
    for name in ("endpoint", "project", "sign", "text"):
        parser.add_argument(f"--{name}", default="")
    flags = parser.parse_args()
    tell("started")
    if flags.do == "model":
        tell_differences(flags)
    else:
        spoken = Spoken(flags)
        obey(spoken.obey, refusal, lambda: spoken.retries)
        tell("left")


if __name__ == "__main__":
    main()
