"""Writes the files of a local cluster: `local-cluster.json`, the settings of each process, and the defaults for topics."""

from __future__ import annotations

import json
import secrets

from brokerd.cluster.metadata import BROKER
from controlplane.devcluster import security
from controlplane.devcluster.layout import SESSION_MS, ClusterFacts, Layout, min_insync, read_facts
from weir_common.files import write_private


def ensure_topic_defaults(layout: Layout) -> None:
    """Set min.insync.replicas as a cluster-wide broker config, unless an operator has set or deleted it: the controller and the console do
    not know values from broker.properties."""
    from controlplane.models import AccessEntry
    from controlplane.services.access import ALL_BROKERS, put

    least = min_insync(min(3, layout.brokers))
    if least > 1 and not AccessEntry.objects.filter(kind=BROKER, key=ALL_BROKERS).exists():
        put(BROKER, ALL_BROKERS, {"min.insync.replicas": str(least)}, actor="up")


def write_configuration(layout: Layout) -> ClusterFacts:
    """Write local-cluster.json (secrets of an earlier start are kept) and every process's settings."""
    old = read_facts(layout.folder)
    for name in ("logs", "stopped", "restart", "celery", "lake", "zookeeper"):
        (layout.folder / name).mkdir(exist_ok=True)
    facts: ClusterFacts = {
        **old,
        "port_base": layout.port_base,
        "console_port": layout.console_port,
        "zookeeper": f"127.0.0.1:{layout.zookeeper_port}",
        "bootstrap": layout.bootstrap,
        "brokers": layout.brokers,
        "controllers": layout.controllers,
        "cluster_name": old.get("cluster_name", "weir"),
        "secret_key": old.get("secret_key") or secrets.token_urlsafe(48),
        "user": "weir",
        "password": old.get("password") or secrets.token_urlsafe(15),
    }
    if layout.secure:
        facts.update(security.facts(layout, old))
    write_private(layout.facts, json.dumps(facts, indent=2))
    secured = security.write_credentials(layout, facts) if layout.secure else {}
    replicas = min(3, layout.brokers)
    for broker_id in range(1, layout.brokers + 1):
        home = layout.folder / f"broker-{broker_id}"
        home.mkdir(exist_ok=True)
        settings = {
            "broker.id": broker_id,
            "listeners": f"PLAINTEXT://127.0.0.1:{layout.broker_port(broker_id)}",
            "log.dirs": home / "data",
            "zookeeper.connect": f"127.0.0.1:{layout.zookeeper_port}",
            "zookeeper.session.timeout.ms": SESSION_MS,
            "replica.lag.time.max.ms": 3000,
            "num.partitions": 3,
            "default.replication.factor": replicas,
            "min.insync.replicas": min_insync(replicas),
            "log.retention.check.interval.ms": 30_000,
            **secured.get(broker_id, {}),
        }
        write_private(home / "broker.properties", "".join(f"{k}={v}\n" for k, v in settings.items()))
    return facts
