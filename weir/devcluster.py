"""The local cluster of a data directory: ports, addresses, secret key, as `up` wrote them to local-cluster.json. Writes nothing.

The addresses, files and the secret key are defaults of environment variables (`weir.variables`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from controlplane.devcluster.layout import BROKERS_DEFAULT, PORT_BASE_DEFAULT, ClusterFacts


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """`port_base`, `console_port`: TCP ports. `brokers`: the number of brokers. `defaults`: texts by field name of `weir.variables.WeirSettings`."""

    port_base: int
    console_port: int
    cluster_name: str
    brokers: int
    defaults: Mapping[str, str]


def read_local_cluster(data_dir: Path) -> LocalCluster:
    """The local cluster in `data_dir`; defaults if `up` has not run yet.

    Raises ValueError if local-cluster.json is not readable: defaults could address another cluster.
    """
    facts: ClusterFacts = {}
    path = data_dir / "local-cluster.json"
    if path.exists():
        try:
            facts = json.loads(path.read_text())
        except ValueError as e:
            raise ValueError(f"{path} is not valid JSON ({e}); run `manage.py up` to write it again") from e
    base = int(facts.get("port_base", PORT_BASE_DEFAULT))
    brokers = int(facts.get("brokers", BROKERS_DEFAULT))
    return LocalCluster(
        port_base=base,
        console_port=int(facts.get("console_port", base)),
        cluster_name=facts.get("cluster_name", "weir"),
        brokers=brokers,
        defaults={
            "zookeeper": facts.get("zookeeper", f"127.0.0.1:{base + 1}"),
            "bootstrap": facts.get("bootstrap", ",".join(f"127.0.0.1:{base + 1 + n}" for n in range(1, brokers + 1))),
            "brokers": str(brokers),
            "secret_key": facts.get("secret_key", ""),
            "kafka_config": facts.get("kafka_config") or "",
            "zookeeper_config": facts.get("zookeeper_config") or "",
            "console_url": f"http://127.0.0.1:{facts.get('console_port', base)}" if facts else "",
            "lake_dir": str(data_dir / "lake"),
        },
    )
