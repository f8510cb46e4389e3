"""A controller without a database, in its own process, so that a test can freeze it: `python -m tests.faults.controller NAME ZOOKEEPER_PORT`."""

from __future__ import annotations

import logging
import sys

from brokerd.cluster.zookeeper import ZooKeeperStore
from controlplane.controller.runner import Controller
from tests.cluster.local import Rows

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    Controller(ZooKeeperStore(f"127.0.0.1:{sys.argv[2]}", 3000), sys.argv[1], Rows([])).run()
