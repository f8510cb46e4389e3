"""A controller without a database, in its own process, so that a test can freeze or kill it: `python -m tests.faults.controller NAME ZOOKEEPER`."""

from __future__ import annotations

import argparse
import logging
import signal
import sys

from brokerd.cluster.zookeeper import ZooKeeperStore
from controlplane.controller.runner import Controller
from tests.cluster.local import Rows

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("zookeeper", help="connection string")
    parser.add_argument("--session-timeout-ms", type=int, default=3000)
    options = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s",
        datefmt="%H:%M:%S",
    )
    controller = Controller(ZooKeeperStore(options.zookeeper, options.session_timeout_ms), options.name, Rows([]))
    signal.signal(signal.SIGTERM, lambda *_: controller.stop())
    controller.run()
