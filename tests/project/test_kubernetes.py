"""The manifests in deploy/kubernetes: valid by Kubernetes' own schemas, and consistent with each other, with the programs and with the settings.

Does not start a cluster: GAPS.md says what was not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from django.core.management import get_commands

from brokerd.cluster.configs import BROKER_SYNONYMS
from brokerd.config.broker import SETTINGS, BrokerConfig
from tests.cluster.local import ROOT
from weir.celery import POLLS
from weir.variables import read, variables
from weir_common.service_manager import HEARTBEAT_VARIABLE

FOLDER = ROOT / "deploy" / "kubernetes"
VERSIONS = ("1.30", "1.34")
"""An older and a newer release of Kubernetes: the schemas of both accept the manifests."""
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
WORKLOADS = ("StatefulSet", "Deployment", "Job")
GENERATED = {"weir-files", "weir-env", "weir-secrets"}
COMPONENT = "app.kubernetes.io/component"


@cache
def objects() -> tuple[dict[str, Any], ...]:
    return tuple(o for name in KUSTOMIZATION["resources"] for o in yaml.safe_load_all((FOLDER / name).read_text()))


def of_kind(*kinds: str) -> list[dict[str, Any]]:
    return [o for o in objects() if o["kind"] in kinds]


def identifier(o: dict[str, Any]) -> str:
    return f"{o['kind']}/{o['metadata']['name']}"


def pod(o: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = o["spec"]["template"]["spec"]
    return found


def containers(o: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from pod(o).get("initContainers", [])
    yield from pod(o)["containers"]


def env_file(name: str) -> dict[str, str]:
    lines = [x for x in (FOLDER / name).read_text().splitlines() if x and not x.startswith("#")]
    return {n: v for n, _, v in (x.partition("=") for x in lines)}


def words(o: dict[str, Any]) -> list[str]:
    """The command of the container, a shell script split into words."""
    (container,) = pod(o)["containers"]
    return [w.strip('"') for part in container["command"] for w in str(part).split()]


each_workload = pytest.mark.parametrize("o", of_kind(*WORKLOADS), ids=identifier)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("o", objects(), ids=identifier)
def test_the_schema_of_kubernetes_accepts_each_object(o: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(o, version, strict=True)


def test_every_file_is_part_of_the_base() -> None:
    generated = [*KUSTOMIZATION["configMapGenerator"], *KUSTOMIZATION["secretGenerator"]]
    named = {f for g in generated for f in [*g.get("files", []), *g.get("envs", [])]} | set(KUSTOMIZATION["resources"])
    files = {p.name for p in FOLDER.iterdir()} - {"secret.env"}
    assert files - named == {"kustomization.yaml", "Containerfile", "secret.env.example"}
    assert named - files == {"secret.env"}, "it has passwords, and is not committed"
    assert {g["name"] for g in generated} == GENERATED
    assert len({identifier(o) for o in objects()}) == len(objects())
    assert (FOLDER / "log4j2.properties").read_text() == (ROOT / "deploy/zookeeper/log4j2.properties").read_text()


@each_workload
def test_selectors_volumes_ports_and_environment_exist(o: dict[str, Any]) -> None:
    labels = o["spec"]["template"]["metadata"]["labels"]
    if o["kind"] != "Job":
        assert o["spec"]["selector"]["matchLabels"] == labels
    volumes = {v["name"] for v in pod(o)["volumes"]}
    volumes |= {c["metadata"]["name"] for c in o["spec"].get("volumeClaimTemplates", [])}
    assert {m["name"] for c in containers(o) for m in c["volumeMounts"]} == volumes
    for v in pod(o)["volumes"]:
        assert "configMap" not in v or v["configMap"]["name"] in GENERATED
    for c in containers(o):
        assert c["image"] in {i["name"] for i in KUSTOMIZATION["images"]}
        assert {s["name"] for e in c.get("envFrom", []) for s in e.values()} <= GENERATED
        ports = {p["name"] for p in c.get("ports", [])}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            check = c.get(probe, {})
            target = (check.get("httpGet") or check.get("tcpSocket") or {}).get("port")
            assert target is None or target in ports


@each_workload
def test_a_pod_has_no_rights_and_writes_its_volumes_only(o: dict[str, Any]) -> None:
    context = pod(o)["securityContext"]
    assert context["runAsNonRoot"] and context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod(o)["automountServiceAccountToken"] is False
    assert f"--uid {context['runAsUser']} " in (FOLDER / "Containerfile").read_text()
    for c in containers(o):
        assert c["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert c["resources"]["requests"] and c["resources"]["limits"]["memory"]


@each_workload
def test_a_container_starts_a_program_of_the_wheel_with_its_environment(o: dict[str, Any]) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    line = words(o)
    start = line.index("exec") + 1 if "exec" in line else 0
    program, first = line[start], line[start + 1]
    assert program in {*scripts, "celery", "uvicorn"}
    if program == "weir":
        assert first in get_commands()
    if program == "celery":
        assert line[line.index("-Q") + 1] in POLLS
    (container,) = pod(o)["containers"]
    assert bool(container.get("envFrom")) == (program != "brokerd" and first != "zookeeper_server")


def test_services_select_pods_and_name_their_ports() -> None:
    for service in of_kind("Service"):
        selector = service["spec"]["selector"]
        (selected,) = [w for w in of_kind(*WORKLOADS) if w["spec"]["template"]["metadata"]["labels"] == selector]
        ports = {p["name"] for c in containers(selected) for p in c.get("ports", [])}
        assert all(p["targetPort"] in ports for p in service["spec"].get("ports", []))
    headless = {s["metadata"]["name"] for s in of_kind("Service") if s["spec"].get("clusterIP") == "None"}
    assert {s["spec"]["serviceName"] for s in of_kind("StatefulSet")} == headless


def test_budgets_and_policies_select_pods_and_open_their_ports_only() -> None:
    by_role = {w["spec"]["template"]["metadata"]["labels"][COMPONENT]: w for w in of_kind(*WORKLOADS)}
    for budget in of_kind("PodDisruptionBudget"):
        role = budget["spec"]["selector"]["matchLabels"][COMPONENT]
        assert budget["spec"]["maxUnavailable"] == 1 and by_role[role]["spec"]["replicas"] > 1
    for policy in of_kind("NetworkPolicy"):
        labels = policy["spec"]["podSelector"].get("matchLabels")
        if labels is None:
            assert policy["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"]}
            continue
        listening = {p["containerPort"] for c in containers(by_role[labels[COMPONENT]]) for p in c.get("ports", [])}
        assert {p["port"] for rule in policy["spec"]["ingress"] for p in rule["ports"]} == listening
        peers = [p["podSelector"] for rule in policy["spec"]["ingress"] for p in rule["from"] if "podSelector" in p]
        assert {r for p in peers if (r := p["matchLabels"].get(COMPONENT))} <= set(by_role)


def by_name(kind: str, name: str) -> dict[str, Any]:
    (found,) = [o for o in of_kind(kind) if o["metadata"]["name"] == name]
    return found


def test_a_broker_keeps_its_data_its_name_and_its_leaders_safe() -> None:
    o = by_name("StatefulSet", "weir-broker")
    spec = pod(o)
    (term,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"]["matchLabels"] == o["spec"]["selector"]["matchLabels"]
    waits = {s.name: s.default for s in SETTINGS}["controlled.shutdown.timeout.ms"]
    (broker,) = spec["containers"]
    delay = int(broker["lifecycle"]["preStop"]["exec"]["command"][1])
    assert isinstance(waits, int) and spec["terminationGracePeriodSeconds"] >= 2 * waits / 1000 + delay
    assert broker["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert by_name("Service", "weir-broker")["spec"]["publishNotReadyAddresses"] is True
    mounts = {m["name"]: m["mountPath"] for m in broker["volumeMounts"]}
    (claim,) = o["spec"]["volumeClaimTemplates"]
    assert str(broker_config()["log.dirs"][0]).startswith(mounts[claim["metadata"]["name"]] + "/")


def broker_config() -> BrokerConfig:
    """The settings of the second pod, as its init container writes them."""
    script = pod(by_name("StatefulSet", "weir-broker"))["initContainers"][0]["command"][-1]
    text = "".join(x for x in (FOLDER / "broker.properties").read_text().splitlines(True) if x[0] != "#")
    assert set(re.findall(r"s/(@[A-Z]+@)/", script)) == set(re.findall(r"@[A-Z]+@", text))
    host = "weir-broker-1.weir-broker.weir.svc.cluster.local"
    for name, value in {"@ID@": "2", "@HOST@": host, "@NODE@": "node-7"}.items():
        text = text.replace(name, value)
    lines = (x.partition("=") for x in text.splitlines())
    return BrokerConfig.parse({n: v for n, _, v in lines}, BROKER_SYNONYMS.__contains__)


def test_the_settings_of_brokers_and_control_plane_are_accepted_and_name_existing_pods() -> None:
    config = broker_config()
    assert config.broker_id == 2
    environment = env_file("weir.env") | env_file("secret.env.example")
    assert set(environment) <= {v.name for v in variables().values()}
    read(environment, {})
    assert not set(env_file("weir.env")) & set(env_file("secret.env.example"))
    for name, addresses, port in (
        ("weir-zookeeper", config["zookeeper.connect"], 2181),
        ("weir-zookeeper", environment["WEIR_ZOOKEEPER"], 2181),
        ("weir-broker", environment["WEIR_BOOTSTRAP"], 9092),
    ):
        replicas = by_name("StatefulSet", name)["spec"]["replicas"]
        assert addresses == ",".join(f"{name}-{i}.{name}:{port}" for i in range(replicas))


def test_the_ensemble_names_its_pods() -> None:
    o, text = by_name("StatefulSet", "weir-zookeeper"), (FOLDER / "zoo.cfg").read_text()
    servers = re.findall(r"^server\.(\d+)=weir-zookeeper-(\d+)\.weir-zookeeper:2888:3888$", text, re.M)
    assert servers == [(str(i + 1), str(i)) for i in range(o["spec"]["replicas"])]
    (data,) = re.findall(r"^dataDir=(.*)$", text, re.M)
    assert f"{data}/myid" in pod(o)["initContainers"][0]["command"][-1]


def test_the_image_has_known_extras() -> None:
    extras = set(re.findall(r"\[([\w,-]+)\]", (FOLDER / "Containerfile").read_text()))
    known = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    assert len(extras) == 1 and set(extras.pop().split(",")) <= known


@pytest.mark.parametrize("role", ["controller", "worker", "spark-worker", "monitor"])
def test_a_pod_without_a_port_is_alive_while_its_heartbeat_is_younger_than_the_limit_of_its_unit(
    role: str, tmp_path: Path
) -> None:
    (o,) = (w for w in of_kind("StatefulSet", "Deployment") if w["metadata"]["name"] == f"weir-{role}")
    (container,) = pod(o)["containers"]
    assert not container.get("ports")
    heartbeat = {e["name"]: e.get("value") for e in container["env"]}[HEARTBEAT_VARIABLE]
    unit = next((ROOT / "deploy/systemd").glob(f"weir-{role}[@.]*")).read_text()
    (limit,) = re.findall(r"(?m)^WatchdogSec=(\d+)$", unit)
    started, alive = (container[p]["exec"]["command"] for p in ("startupProbe", "livenessProbe"))
    assert f"-{limit} seconds" in alive[-1]
    file = tmp_path / "heartbeat"

    def responds(command: list[str]) -> bool:
        return subprocess.run([w.replace(heartbeat, str(file)) for w in command], check=False).returncode == 0

    assert not responds(started)
    file.touch()
    assert responds(started) and responds(alive)
    old = time.time() - int(limit) - 1
    os.utime(file, (old, old))
    assert not responds(alive)


def test_every_role_with_several_pods_has_a_budget() -> None:
    several = {w["metadata"]["name"] for w in of_kind("StatefulSet", "Deployment") if w["spec"]["replicas"] > 1}
    assert {b["metadata"]["name"] for b in of_kind("PodDisruptionBudget")} == several
