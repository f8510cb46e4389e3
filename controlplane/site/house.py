"""The house's own facts: which folder it lives in, which ports it uses, its secret.

Law: reads `$WEIR_DATA_DIR/house.json` (written by `up`) and the environment, writes nothing. Called by settings only.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PORT_BASE_DEFAULT = 19090


@dataclass(frozen=True, slots=True)
class House:
    """Addresses are `host:port`; `bootstrap` and `zookeeper` are comma-separated lists.

    `kafka_config`: the file that says how to come in by a secured listener (brokerd/access/client_settings.py), None: in the clear.
    `kafka_listener`: by which listener, where the protocol alone does not say it. `zookeeper_config`: the same for ZooKeeper
    (brokerd/access/zookeeper_settings.py).
    """

    data_dir: Path
    port_base: int
    console_port: int
    zookeeper: str
    bootstrap: str
    secret_key: str
    cluster_name: str
    brokers: int
    kafka_config: Path | None
    kafka_listener: str
    zookeeper_config: Path | None


def read_house() -> House:
    """The facts of the house at `$WEIR_DATA_DIR` (default ./data); defaults where `up` has not run yet.

    Raises ValueError when house.json exists and cannot be read: guessing would talk to another house.
    """
    data_dir = Path(os.environ.get("WEIR_DATA_DIR", "data")).resolve()
    facts: dict[str, Any] = {}
    path = data_dir / "house.json"
    if path.exists():
        try:
            facts = json.loads(path.read_text())
        except ValueError as e:
            raise ValueError(f"{path} is not valid JSON ({e}); run `manage.py up` to write it anew") from e
    base = int(facts.get("port_base", PORT_BASE_DEFAULT))
    brokers = int(facts.get("brokers", 3))
    zookeeper_config = os.environ.get("WEIR_ZOOKEEPER_CONFIG", facts.get("zookeeper_config"))
    kafka_config = os.environ.get("WEIR_KAFKA_CONFIG", facts.get("kafka_config"))
    return House(
        data_dir=data_dir,
        port_base=base,
        console_port=int(facts.get("console_port", base)),
        zookeeper=os.environ.get("WEIR_ZOOKEEPER", facts.get("zookeeper", f"127.0.0.1:{base + 1}")),
        bootstrap=os.environ.get(
            "WEIR_BOOTSTRAP",
            facts.get("bootstrap", ",".join(f"127.0.0.1:{base + 1 + n}" for n in range(1, brokers + 1))),
        ),
        secret_key=os.environ.get("WEIR_SECRET_KEY", facts.get("secret_key", "")),
        cluster_name=facts.get("cluster_name", "weir"),
        brokers=brokers,
        kafka_config=Path(kafka_config) if kafka_config else None,
        zookeeper_config=Path(zookeeper_config) if zookeeper_config else None,
        kafka_listener=os.environ.get("WEIR_KAFKA_LISTENER", "").upper(),
    )
