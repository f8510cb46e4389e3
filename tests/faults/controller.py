"""A controller without a database, in its own process, so that a test can freeze or kill it: `python -m tests.faults.controller NAME ZOOKEEPER`."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from brokerd.cluster.protection import OPEN
from brokerd.cluster.zookeeper import ZooKeeperStore, end_session
from brokerd.config import zookeeper_client
from controlplane.controller.former_session import SessionFile, end_former
from controlplane.controller.runner import Controller
from tests.cluster.local import Rows, startup_topics

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("zookeeper", help="connection string")
    parser.add_argument("--session-timeout-ms", type=int, default=3000)
    parser.add_argument("--zookeeper-config", type=Path, help="file with TLS and SASL of the connection")
    parser.add_argument("--startup-topics", type=int, default=0, metavar="BROKERS", help="create the internal topics")
    parser.add_argument("--session-file", type=Path, help="as `weir controller`; default: none")
    options = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s",
        datefmt="%H:%M:%S",
    )
    protection = zookeeper_client.load(options.zookeeper_config) if options.zookeeper_config else OPEN
    # Every controller of a cluster has the same ids, as from one database.
    rows = (
        startup_topics(options.startup_topics, lambda name: uuid5(NAMESPACE_URL, name))
        if options.startup_topics
        else []
    )
    hosts, timeout_ms = options.zookeeper, options.session_timeout_ms
    if options.session_file:
        file = SessionFile(options.session_file)
        end_former(file, lambda key: end_session(hosts, key, timeout_ms, protection))
        store = ZooKeeperStore(hosts, timeout_ms, protection, file.write)
    else:
        store = ZooKeeperStore(hosts, timeout_ms, protection)
    controller = Controller(store, options.name, Rows(rows))
    signal.signal(signal.SIGTERM, lambda *_: controller.stop())
    controller.run()
