"""A local cluster whose controllers are processes, so that a test can kill the active one with SIGKILL. The other one is its standby.

The controllers have no database: after a failover the new one knows the topics of clients from the metadata log only.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests import log_phrases
from tests.cluster.local import LocalCluster, wait_for

CONTROLLERS = ("controller-1", "controller-2")
ELECTED = re.compile(rf"{re.escape(log_phrases.CONTROLLER_ELECTED)}(\S+) epoch=(\d+)")


class ControllerProcesses(LocalCluster):
    """`bootstrap`, `kill` and `start_broker` are those of `LocalCluster`. There is no `image`."""

    candidate_arguments: Sequence[str] = ()

    def _start(self) -> None:
        self.start_zookeeper()
        for name in CONTROLLERS:
            self.start_candidate(name)
        for i in self.ports:
            self.start_broker(i)
        self.until_at_rest()

    def start_candidate(self, name: str) -> None:
        words = [sys.executable, "-m", "tests.faults.controller", name, self.zookeeper_connect]
        self._spawn(name, [*words, "--startup-topics", str(self.count), *self.candidate_arguments])

    def active_controller(self) -> str:
        """The controller that was elected last."""
        return max((int(m[2]), m[1]) for name in CONTROLLERS for m in ELECTED.finditer(self.log(name)))[1]

    def until_at_rest(self) -> None:
        def at_rest() -> bool:
            admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
            try:
                found = admin.list_topics(timeout=10)
            except KafkaException:
                return False
            partitions = [p for t in found.topics.values() for p in t.partitions.values()]
            return (
                len(found.brokers) == self.count
                and set(self.internal_topics) <= found.topics.keys()
                and all(p.leader == p.replicas[0] and len(p.isrs) == len(p.replicas) for p in partitions)
            )

        wait_for(at_rest, "the cluster to be at rest", 180)
