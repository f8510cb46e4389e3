"""The process of one broker: command line, settings, signals, metrics endpoint and exit status."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from pathlib import Path

from brokerd.cluster.configs import BROKER_SYNONYMS
from brokerd.cluster.zookeeper import ZooKeeperStore
from brokerd.compiled import importer
from brokerd.config.broker import BrokerConfig, ConfigError
from brokerd.config.zookeeper_client import protection
from brokerd.membership.identity import IdentityError
from brokerd.runtime.broker import BrokerServer
from brokerd.runtime.metrics import BrokerMetrics
from brokerd.runtime.metrics_server import MetricsServer
from brokerd.runtime.readiness import Readiness, readiness
from brokerd.security.certificates import CertificateError
from brokerd.storage import key_hashes
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.wire import record_walks, records


def main() -> int:
    parser = argparse.ArgumentParser(prog="brokerd", description="A Weir broker.")
    parser.add_argument("--config", required=True, type=Path, help="a .properties file with Kafka's own names")
    parser.add_argument(
        "--interpreted",
        action="store_true",
        help="run the Python sources, also where compiled modules exist: profilers and stack dumps then show every function",
    )
    arguments = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
    )
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    logging.getLogger("brokerd").info(
        "compiled modules: request_path=%s record_walk=%s record_decode=%s key_walk=%s",
        str(importer.is_installed()).lower(),
        str(record_walks.COMPILED).lower(),
        str(records.DECODER_COMPILED).lower(),
        str(key_hashes.COMPILED).lower(),
    )
    try:
        config = BrokerConfig.load(arguments.config, BROKER_SYNONYMS.__contains__)
        protected = protection(config.values)
        broker = BrokerServer(
            config,
            lambda: ZooKeeperStore(config["zookeeper.connect"], config["zookeeper.session.timeout.ms"], protected),
        )
        metrics = _metrics_server(config, broker)
    except (ConfigError, IdentityError, CertificateError, ValueError) as e:
        print(f"brokerd: {e}", file=sys.stderr)
        return 78
    except (OSError, DiskFailed, DiskFull) as e:
        print(f"brokerd: cannot start: {e}", file=sys.stderr)
        return 78
    # Signal handlers run between bytecodes of the loop's thread. The timer moves the call into an iteration of the event loop.
    signal.signal(signal.SIGTERM, lambda *_: broker.loop.call_later(0, lambda now: broker.stop()) and None)
    signal.signal(signal.SIGINT, lambda *_: broker.loop.call_later(0, lambda now: broker.stop()) and None)
    if metrics is not None:
        metrics.start()
    broker.run()
    return broker.exit_status


def _metrics_server(config: BrokerConfig, broker: BrokerServer) -> MetricsServer | None:
    """Start the metrics endpoint, if the settings have one. Raises OSError if the address cannot be bound."""
    address: str | None = config["weir.metrics.listener"]
    if address is None:
        return None
    host, _, port = address.rpartition(":")

    def ready() -> Readiness:
        return readiness(
            config.broker_id,
            lambda: broker.replica_manager.image,
            registered=lambda: broker.membership.broker_epoch is not None,
            current=lambda: broker.membership.tailer.current,
            stopping=lambda: broker.stopping or broker.stopped,
        )

    metrics = BrokerMetrics(
        config.broker_id,
        lambda: broker.replica_manager.hosted,
        lambda: broker.dispatch.metrics.all(),
        lambda: broker.dispatch.rejections.counts,
        lambda: broker.throttles.paused_ms,
    )
    try:
        return MetricsServer(host.strip("[]"), int(port), metrics.families, ready)
    except OSError as e:
        raise OSError(f"weir.metrics.listener={address}: {e}") from e
