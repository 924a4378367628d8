"""What Dockerfile, Compose and chart values name is there: files, modules, commands, settings, locations.

No container engine is started. Commands are parsed by the programs' own parsers, and not run.
"""

import importlib.util
import os
import re
import shlex
from pathlib import Path
from typing import Any

import click
import yaml
from dagster._cli import cli as dagster
from dagster._daemon.cli import cli as dagster_daemon
from dagster_webserver.cli import cli as dagster_webserver

from pipelines.cli.main import cli as sls_lake
from pipelines.landing.spark import connect_server
from pipelines.landing.spark.remote import REMOTE_VARIABLE, names_session, place_of

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "docs" / "deploy"
PROGRAMS: dict[str, click.Command] = {
    "dagster": dagster,
    "dagster-daemon": dagster_daemon,
    "dagster-webserver": dagster_webserver,
    "sls-lake": sls_lake,
}
SPARK = "pipelines.landing.spark.connect_server"


def document(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


COMPOSE, OVER, VALUES = document("compose.yaml"), document("compose.emulator.yaml"), document("values.yaml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
CODE = VALUES["dagster-user-deployments"]["deployments"]


def locations() -> dict[str, str]:
    """Module by location, as the project has them."""
    loaded = yaml.safe_load((ROOT / "workspace.yaml").read_text(encoding="utf-8"))["load_from"]
    return {each["python_module"]["location_name"]: each["python_module"]["module_name"] for each in loaded}


def read(words: list[str]) -> dict[str, Any]:
    """The parameters of a command line, as the program that it names reads it."""
    command: click.Command = PROGRAMS[words[0]]
    arguments = words[1:]
    while isinstance(command, click.Group):
        _, found, arguments = command.resolve_command(click.Context(command), arguments)
        assert found is not None, words
        command = found
    return command.make_context(words[0], arguments).params


def told(words: list[str]) -> None:
    """A command of a container: its program reads it, and modules and files that it names are there."""
    if words[0] == "python":
        named = [words[2]] if words[1] == "-m" else re.findall(r"import (\S+?)(?: as \w+)?;", words[2])
        assert named and all(importlib.util.find_spec(name) for name in named), words
    elif words[0] in PROGRAMS:
        for value in read(words).values():
            for each in value if isinstance(value, tuple) else (value,):
                assert not str(each).endswith(".yaml") or (ROOT / str(each)).is_file(), words
    else:
        assert words[0] in ("chown", "pg_isready"), words


def served(words: list[str]) -> tuple[str, int]:
    """(module, port) of a code server's command."""
    params = read(words)
    return params["module_name"], params["port"]


def test_what_the_dockerfile_names_is_there_and_reaches_the_build() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    let_in = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert all((ROOT / name).exists() for name in let_in)
    sources = [
        each for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, flags=re.M) for each in line.split()
    ]
    assert "pyproject.toml" in sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert source == "." or any(source == name or source.startswith(f"{name}/") for name in let_in), (
            source
        )
    for module in re.findall(r"(?:python -m|import) (pipelines[\w.]*)", text):
        assert importlib.util.find_spec(module), module
    for path in re.findall(r'"/opt/sls-lake/(\S+)"', text):
        assert os.access(ROOT / path, os.X_OK), path
    for name in ("pipelines", "sls_io", "dbt", "workspace.yaml", "docs/deploy"):
        assert name in let_in, name


def test_the_commands_of_compose_are_ones() -> None:
    for service in [*SERVICES.values(), *OVER["services"].values()]:
        if "command" in service:
            told(service["command"])
        if "healthcheck" in service:
            told(service["healthcheck"]["test"][1:])


def test_compose_names_its_own_services_volumes_files_and_variables() -> None:
    after = {name for service in SERVICES.values() for name in service.get("depends_on", {})}
    assert after <= set(SERVICES)
    assert set(OVER["services"]) - {"emulator"} <= set(SERVICES)
    volumes = {**COMPOSE["volumes"], **OVER["volumes"]}
    for service in [*SERVICES.values(), *OVER["services"].values()]:
        for source in (mount.split(":")[0] for mount in service.get("volumes", [])):
            assert source in volumes or (source.startswith("./") and (DEPLOY / source).is_file()), source
    texts = [
        (DEPLOY / name).read_text(encoding="utf-8") for name in ("compose.yaml", "compose.emulator.yaml")
    ]
    used = set(re.findall(r"\$\{(\w+)", "".join(texts)))
    offered = re.findall(r"^#?([A-Z_]+)=", (DEPLOY / "compose.env").read_text(encoding="utf-8"), flags=re.M)
    assert used == set(offered)
    assert all(
        port.startswith("127.0.0.1:") for service in SERVICES.values() for port in service.get("ports", [])
    )


def test_no_secret_is_written_down() -> None:
    filled = re.findall(
        r"^(\w*(?:PASSWORD|SECRET|KEY_ID)\w*)=\S", (DEPLOY / "compose.env").read_text(), flags=re.M
    )
    assert not filled
    for service in [*SERVICES.values(), *OVER["services"].values()]:
        for name, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|ACCESS_KEY|URI|URL", name):
                assert re.search(r"\$\{\w+(:\?[^}]+)?\}", value) and not re.search(r":[^$/@{}]+@", value), (
                    name
                )


def test_the_code_servers_of_compose_are_the_locations_of_the_project() -> None:
    servers = [each["grpc_server"] for each in document("workspace.yaml")["load_from"]]
    found = {s["location_name"]: served(SERVICES[s["host"]]["command"]) for s in servers}
    assert found == {s["location_name"]: (locations()[s["location_name"]], s["port"]) for s in servers}
    assert set(found) == set(locations())


def test_the_code_servers_of_one_machine_are_the_locations_of_the_project() -> None:
    page = (DEPLOY / "README.md").read_text(encoding="utf-8")
    lines = [line.split() for line in re.findall(r"^ +(dagster(?:-\w+)? .+ -[pw] .+)$", page, flags=re.M)]
    begun = [read(words) for words in lines]
    started = {each["location_name"]: (each["module_name"], each["port"]) for each in begun[:2]}
    name = "one-machine-workspace.yaml"
    servers = [each["grpc_server"] for each in document(name)["load_from"]]
    assert started == {s["location_name"]: (locations()[s["location_name"]], s["port"]) for s in servers}
    assert set(started) == set(locations()) and {s["host"] for s in servers} == {"127.0.0.1"}
    assert [words[0] for words in lines[2:]] == ["dagster-webserver", "dagster-daemon"]
    assert all(each["workspace"] == (f"docs/deploy/{name}",) for each in begun[2:])


def test_the_code_servers_of_the_chart_are_the_locations_of_the_project() -> None:
    by_host = {each["name"]: each for each in CODE}
    servers = VALUES["dagsterWebserver"]["workspace"]["servers"]
    assert {s["name"]: by_host[s["host"]]["dagsterApiGrpcArgs"] for s in servers} == {
        name: ["-m", module] for name, module in locations().items()
    }
    assert all(by_host[s["host"]]["port"] == s["port"] for s in servers) and len(servers) == len(by_host)


def test_spark_is_where_the_code_servers_look_for_it() -> None:
    for name in ("code", "models"):
        remote = SERVICES[name]["environment"][REMOTE_VARIABLE]
        host, port = place_of(remote)
        assert names_session(remote) and SERVICES[host]["command"][:3] == ["python", "-m", SPARK]
        assert connect_server.parse(SERVICES[host]["command"][3:])[1] == port
    pods = {
        each["metadata"]["name"]: each["spec"]
        for each in VALUES["extraManifests"]
        if each["kind"] == "Deployment"
    }
    services = {each["metadata"]["name"] for each in VALUES["extraManifests"] if each["kind"] == "Service"}
    for deployment in CODE:
        (remote,) = (each["value"] for each in deployment["env"] if each["name"] == REMOTE_VARIABLE)
        host, port = place_of(remote)
        (container,) = pods[host]["template"]["spec"]["containers"]
        assert names_session(remote) and host in services and container["args"][:3] == ["python", "-m", SPARK]
        assert connect_server.parse(container["args"][3:])[1] == port


def test_the_chart_makes_the_instance_of_several_machines() -> None:
    """Under the chart's own words and `additionalInstanceConfig`; storage is the chart's own."""
    wanted = {name: part for name, part in document("dagster-postgres.yaml").items() if name != "storage"}
    launcher, daemon = VALUES["runLauncher"], VALUES["dagsterDaemon"]
    made = {
        **VALUES["additionalInstanceConfig"],
        "telemetry": VALUES["telemetry"],
        "run_launcher": {k: v for k, v in launcher["config"]["customRunLauncher"].items() if k != "config"},
        "run_monitoring": {snake(name): value for name, value in daemon["runMonitoring"].items()},
        "retention": {
            name: {
                "purge_after_days": {
                    k: v for k, v in VALUES["retention"][name]["purgeAfterDays"].items() if v > 0
                }
            }
            for name in ("schedule", "sensor")
        },
    }
    assert made == wanted
    assert launcher["type"] == "CustomRunLauncher" and VALUES["retention"]["enabled"]
    assert not daemon["runCoordinator"]["enabled"], "it would stand beside `concurrency` and `run_queue`"


def snake(name: str) -> str:
    return re.sub("([A-Z])", r"_\1", name).lower()


def test_the_page_says_of_every_step_whether_it_was_run() -> None:
    text = (DEPLOY / "containers.md").read_text(encoding="utf-8")
    steps = re.findall(r"^\d+\. (.+?)(?=^\d+\. |^#|\Z)", text, flags=re.M | re.S)
    assert steps
    for step in steps:
        assert re.search(r"\*(Run|Not run)\b", step), step[:80]
    named = re.findall(r"docs/deploy/[\w.-]+\w", text)
    assert named and all((ROOT / name).exists() for name in named)
    for line in re.findall(r"^ *(sls-lake .+)$", text, flags=re.M):
        told(shlex.split(line))
