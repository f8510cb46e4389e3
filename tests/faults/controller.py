"""A controller without a database, in its own process, so that a test can freeze or kill it: `python -m tests.faults.controller NAME ZOOKEEPER`."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from pathlib import Path

from brokerd.cluster.protection import OPEN
from brokerd.cluster.zookeeper import ZooKeeperStore
from brokerd.config import zookeeper_client
from controlplane.controller.runner import Controller
from tests.cluster.local import Rows

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("zookeeper", help="connection string")
    parser.add_argument("--session-timeout-ms", type=int, default=3000)
    parser.add_argument("--zookeeper-config", type=Path, help="file with TLS and SASL of the connection")
    options = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s",
        datefmt="%H:%M:%S",
    )
    protection = zookeeper_client.load(options.zookeeper_config) if options.zookeeper_config else OPEN
    store = ZooKeeperStore(options.zookeeper, options.session_timeout_ms, protection)
    controller = Controller(store, options.name, Rows([]))
    signal.signal(signal.SIGTERM, lambda *_: controller.stop())
    controller.run()
