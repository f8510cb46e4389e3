"""A controller with rows in memory in its own process, with the code of PYTHONPATH: `controller.py NAME ZOOKEEPER OFFSETS_TOPIC_ID`."""

from __future__ import annotations

import logging
import signal
import sys
from uuid import UUID

from brokerd.cluster.zookeeper import ZooKeeperStore
from controlplane.controller.events import DesiredTopic
from controlplane.controller.runner import Controller
from tests.cluster.local import Rows

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    name, hosts, topic_id = sys.argv[1:]
    configs = {"cleanup.policy": "compact", "min.insync.replicas": "2"}
    offsets = DesiredTopic(UUID(topic_id), "__consumer_offsets", 1, False, 4, 3, configs)
    controller = Controller(ZooKeeperStore(hosts, 3000), name, Rows([offsets]))
    signal.signal(signal.SIGTERM, lambda *_: controller.stop())
    controller.run()
