"""The pods of `docs/deploy/spark-pods.yaml`, as Spark itself makes them: no cluster is asked.

Spark's driver builds the pod of an executor from settings alone, and has an API server start it. The first
half is done here, by the release that is installed.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from py4j.java_gateway import JavaGateway
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from pipelines.landing.spark import connect_server
from pipelines.landing.spark.remote import MASTER_VARIABLE

pytestmark = pytest.mark.spark

_FILE = Path(__file__).parents[3] / "docs" / "deploy" / "spark-pods.yaml"
_TASK_MB, _JAVA_OFF_HEAP_MB = 400, 384
"""docs/sizing.md; what Spark adds for Java alone (`spark.executor.minMemoryOverhead`)."""
_OF_ANY_NAME = re.compile(r"spark\.kubernetes\.executor\.secretKeyRef\.\w+")


@pytest.fixture(scope="module")
def documents() -> dict[str, dict[str, Any]]:
    """What the file makes, by kind."""
    return {each["kind"]: each for each in yaml.safe_load_all(_FILE.read_text(encoding="utf-8"))}


@pytest.fixture(scope="module")
def container(documents: Mapping[str, Any]) -> dict[str, Any]:
    """The container of Spark's driver."""
    (found,) = documents["Deployment"]["spec"]["template"]["spec"]["containers"]
    return dict(found)


@pytest.fixture(scope="module")
def settings(container: Mapping[str, Any]) -> dict[str, str]:
    """What its arguments set, read as the server reads them, with the variables of its pod."""
    words = [
        word.replace("$(NAMESPACE)", "logs").replace("$(POD)", "the-driver") for word in container["args"]
    ]
    assert not any("$" in word for word in words)
    return connect_server.parse(words[3:])[2]


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    """Spark's classes; no Spark."""
    gateway: JavaGateway = launch_gateway(SparkConf(loadDefaults=False))  # type: ignore[no-untyped-call]
    yield gateway.jvm
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


@pytest.fixture(scope="module")
def executor(jvm: Any, settings: Mapping[str, str], container: Mapping[str, Any]) -> dict[str, Any]:
    """{"pod": ..., "container": ...} of the first executor."""
    (master,) = (one["value"] for one in container["env"] if one["name"] == MASTER_VARIABLE)
    conf = jvm.org.apache.spark.SparkConf(False)
    for name, value in {"spark.app.name": "sls-lake", "spark.master": master, **settings}.items():
        conf.set(name, value)
    none, internal = _single(jvm.scala, "None"), _single(jvm.org.apache.spark.internal.config, "package")
    profile = _single(jvm.org.apache.spark.resource, "ResourceProfile").getOrCreateDefaultProfile(conf)
    kubernetes = jvm.org.apache.spark.deploy.k8s
    # It would look for this pod's own name at the API server; the owner of a pod is all that it gives.
    conf.remove("spark.kubernetes.driver.pod.name")
    wanted = kubernetes.KubernetesExecutorConf(conf, "spark-app", "1", none, profile.id())
    security = jvm.org.apache.spark.SecurityManager(conf, none, internal.AUTH_SECRET_FILE())
    client = jvm.io.fabric8.kubernetes.client.KubernetesClientBuilder().build()
    builder = jvm.org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBuilder()
    made = builder.buildFromFeatures(wanted, security, client, profile).pod()
    as_text = jvm.io.fabric8.kubernetes.client.utils.Serialization.asYaml
    return {
        "pod": yaml.safe_load(as_text(made.pod())),
        "container": yaml.safe_load(as_text(made.container())),
    }


def _single(package: Any, name: str) -> Any:
    """A singleton object of Scala."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def test_each_argument_is_a_setting_that_spark_has(jvm: Any, settings: Mapping[str, str]) -> None:
    _single(jvm.org.apache.spark.deploy.k8s, "Config")
    _single(jvm.org.apache.spark.internal.config, "package")
    registry = jvm.org.apache.spark.internal.config.ConfigEntry
    unknown = [
        name for name in settings if registry.findEntry(name) is None and not _OF_ANY_NAME.fullmatch(name)
    ]
    assert unknown == []
    assert registry.findEntry("spark.executor.memoryOverheat") is None


def test_an_executor_finds_its_driver_and_its_driver_lets_it_in(
    documents: Mapping[str, Any], executor: Mapping[str, Any], container: Mapping[str, Any]
) -> None:
    service, policy = documents["Service"], documents["NetworkPolicy"]["spec"]
    variables = {one["name"]: one.get("value") for one in executor["container"]["env"]}
    place = str(variables["SPARK_DRIVER_URL"]).rpartition("@")[2]
    host, _, port = place.partition(":")
    labels = documents["Deployment"]["spec"]["template"]["metadata"]["labels"]
    open_ports = {one["port"] for one in service["spec"]["ports"]}
    blocks = {one["containerPort"] for one in executor["container"]["ports"]}

    assert host == service["metadata"]["name"] and service["spec"]["selector"] == labels
    assert service["spec"]["publishNotReadyAddresses"]
    assert {int(port)} | blocks < open_ports == {one["containerPort"] for one in container["ports"]}
    own = executor["pod"]["metadata"]["labels"]
    let_in = [
        {one["port"] for one in rule["ports"]}
        for rule in policy["ingress"]
        if rule["from"][0]["podSelector"]["matchLabels"].items() <= own.items()
    ]
    assert let_in == [{int(port)} | blocks] and policy["podSelector"]["matchLabels"] == labels


def test_an_executor_has_the_image_the_keys_and_room_for_a_task_a_core(
    executor: Mapping[str, Any], container: Mapping[str, Any], settings: Mapping[str, str]
) -> None:
    made = executor["container"]
    (secret,) = (one["secretRef"]["name"] for one in container["envFrom"])
    keys = {
        one["name"]: one["valueFrom"]["secretKeyRef"]
        for one in made["env"]
        if "secretKeyRef" in one.get("valueFrom", {})
    }
    cores, heap_mb = int(settings["spark.executor.cores"]), int(settings["spark.executor.memory"][:-1])
    given_mb = int(made["resources"]["limits"]["memory"].removesuffix("Mi"))

    assert made["image"] == container["image"] and made["args"] == ["executor"]
    assert keys == {
        name: {"name": secret, "key": name}
        for name in ("ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_SECRET")
    }
    assert given_mb >= heap_mb + _JAVA_OFF_HEAP_MB + cores * _TASK_MB
    assert made["resources"]["requests"]["cpu"] == str(cores)
    assert executor["pod"]["spec"]["serviceAccountName"] == "default"


def test_the_driver_may_do_what_it_does_to_its_pods_and_nobody_else_may(
    documents: Mapping[str, Any], settings: Mapping[str, str]
) -> None:
    role, binding = documents["Role"], documents["RoleBinding"]
    account = documents["ServiceAccount"]["metadata"]["name"]
    (rule,) = role["rules"]

    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account}]
    assert documents["Deployment"]["spec"]["template"]["spec"]["serviceAccountName"] == account
    assert settings["spark.kubernetes.authenticate.executor.serviceAccountName"] != account
    assert {"get", "list", "watch", "create", "patch", "delete", "deletecollection"} == set(rule["verbs"])
    assert {"pods", "configmaps"} <= set(rule["resources"]) and rule["apiGroups"] == [""]
