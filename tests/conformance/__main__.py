"""`python -m tests.conformance`: the vendor's consumers in Python, Go and Java share one group.

Four shards are split and merged under them, one is killed, one leaves: every log must arrive, and
per key in order. Says what it skipped and why: Go and Java need their tools, and Java's library,
which knows neither proxy nor port, needs the emulator on port 80. Built programs lie in
var/conformance.
"""

import os
import shutil
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from aliyun.log import LogClient, LogItem, PutLogsRequest

from sls_io.emulator import Emulator, start
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET
from sls_io.errors import ConfigError
from tests.contract import vendor_consumer
from tests.contract.teller import Teller

HERE = Path(__file__).resolve().parent
BUILT = HERE.parents[1] / "var" / "conformance"
PROJECT, LOGSTORE, GROUP = "demo", "access_logs", "shared"
KEYS = tuple(f"{first:x}" + "0" * 31 for first in (0, 4, 8, 12))


def say(text: str) -> None:
    """One line, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def python_command() -> list[str]:
    """The Python SDK of this environment."""
    return [sys.executable, "-m", vendor_consumer.__name__, PROJECT, LOGSTORE, GROUP, "python", "1"]


def go_command() -> list[str] | None:
    """Build the Go program; None without Go."""
    if shutil.which("go") is None:
        say("skipped Go: no `go` on the path")
        return None
    source = BUILT / "go"
    shutil.copytree(HERE / "go", source, dirs_exist_ok=True)
    subprocess.run(["go", "mod", "tidy"], cwd=source, check=True, capture_output=True)
    subprocess.run(["go", "build", "-o", str(BUILT / "consumer"), "."], cwd=source, check=True)
    return [str(BUILT / "consumer"), PROJECT, LOGSTORE, GROUP, "go"]


def java_command(port: int) -> list[str] | None:
    """Build the Java program; None without a JDK and Maven, or when port 80 cannot be had."""
    if shutil.which("mvn") is None or shutil.which("javac") is None:
        say("skipped Java: it needs a JDK and `mvn` on the path")
        return None
    if port != 80:
        say("skipped Java: its library takes no port, and port 80 cannot be had here")
        return None
    built = BUILT / "java"
    maven = ["mvn", "-q", "-B", "-f", str(HERE / "java" / "pom.xml"), f"-Dbuilt={built}"]
    paths = built / "classpath"
    wanted = ["compile", "dependency:build-classpath", f"-Dmdep.outputFile={paths}"]
    subprocess.run([*maven, *wanted], check=True)
    hosts = BUILT / "hosts"
    hosts.write_text(f"127.0.0.1 {PROJECT}.sls.emu sls.emu\n")
    classes = f"{built / 'classes'}:{paths.read_text().strip()}"
    program = ["java", f"-Djdk.net.hosts.file={hosts}", "-cp", classes, "Conformance"]
    return [*program, PROJECT, LOGSTORE, GROUP, "java"]


def run(emulator: Emulator) -> None:
    """The scene; an AssertionError says what did not hold."""
    os.environ |= {"http_proxy": emulator.endpoint, "no_proxy": ""}
    client = LogClient("http://sls.emu", FAKE_ID, FAKE_SECRET)
    client.create_project(PROJECT, "")
    client.create_logstore(PROJECT, LOGSTORE, ttl=1, shard_count=4)
    total = 0

    def more() -> None:
        nonlocal total
        for n in range(total, total + 40):
            key = KEYS[n % 4]
            item = LogItem(contents=[("key", key), ("n", str(n))])
            client.put_logs(PutLogsRequest(PROJECT, LOGSTORE, "t", "s", [item], key))
        total += 40

    commands = {"java": java_command(emulator.port), "go": go_command(), "python": python_command()}
    changed = threading.Condition()
    tellers = {name: Teller(c, os.environ, changed) for name, c in commands.items() if c is not None}

    def all_seen() -> None:
        first = next(iter(tellers.values()))
        first.wait(lambda: set(range(total)) <= set().union(*(t.numbers() for t in tellers.values())))

    steps: list[tuple[str, Callable[[], object]]] = [
        ("the first logs are put", lambda: None),
        ("all have joined", lambda: joined(emulator, len(tellers))),
        ("a shard is split", lambda: emulator.admin.split(PROJECT, LOGSTORE, 0)),
        ("two shards are merged", lambda: emulator.admin.merge(PROJECT, LOGSTORE, 1)),
    ]
    order = list(tellers)
    if len(order) > 2:
        steps.append((f"{order[0]} leaves", tellers[order[0]].leave))
    if len(order) > 1:
        steps.append((f"{order[1]} is killed", tellers[order[1]].kill))
    try:
        for name, step in steps:
            step()
            more()
            all_seen()
            say(
                f"{name}: {total} logs arrived; "
                + ", ".join(f"{n} {len(t.seen)}" for n, t in tellers.items())
            )
        check_order(list(tellers.values()))
    finally:
        for teller in tellers.values():
            teller.kill()


def joined(emulator: Emulator, wanted: int) -> None:
    """Return once `wanted` members have sent a heartbeat that gave them a shard."""
    group = next(g for s in emulator.admin.state()["logstores"] for g in s["groups"])
    seen = {s["holder"] for s in group["shards"]}
    while len(seen) < wanted:
        fault = emulator.admin.fault("observe", call="heartbeat", times=1)
        emulator.admin.wait(fault, timeout_s=30)
        group = next(g for s in emulator.admin.state()["logstores"] for g in s["groups"])
        seen = {s["holder"] for s in group["shards"] if s["state"] == "already_alloc"}
        emulator.admin.remove(fault)


def check_order(tellers: list[Teller]) -> None:
    """Per consumer and key, the first time each log was seen, in order."""
    for teller in tellers:
        by_key: dict[str, list[int]] = defaultdict(list)
        for _, key, n in teller.seen:
            if n not in by_key[key]:
                by_key[key].append(n)
        for key, numbers in by_key.items():
            assert numbers == sorted(numbers), f"key {key[:2]} out of order: {numbers}"


def main() -> None:
    """Run it on port 80 if that can be had, else on a free one."""
    BUILT.mkdir(parents=True, exist_ok=True)
    try:
        emulator = start(port=80, key_pair=(FAKE_ID, FAKE_SECRET))
    except ConfigError:
        emulator = start(key_pair=(FAKE_ID, FAKE_SECRET))
    with emulator:
        run(emulator)
    say("conformance: everything that ran held")


if __name__ == "__main__":
    main()
