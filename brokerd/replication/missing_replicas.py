"""Replicas that are assigned to this broker and that no online log directory contains.

Invariant: a missing replica is not created again, because a new log would lack its records. The controller resets it. Does not contain: open
replicas that are offline (`replica_manager`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from brokerd.cluster.image import Image
from brokerd.cluster.model import TopicPartition
from brokerd.replication.outbox import Outbox, OutboxEntry
from brokerd.storage.log_dirs import LogDirs

log = logging.getLogger(__name__)


class MissingReplicas:
    def __init__(self, broker_id: int, log_dirs: LogDirs, outbox: Outbox) -> None:
        self._broker_id, self._log_dirs, self._outbox = broker_id, log_dirs, outbox
        self._missing: set[TopicPartition] = set()

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp in self._missing

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._missing)

    def find(self, image: Image) -> None:
        """Add all assigned replicas that no online log directory contains. Called at the start of a broker with a failed log directory, which may
        contain them."""
        here = {name for d in self._log_dirs.online for name in self._log_dirs.disk.listdir(d.path)}
        for topic, index, state in image.each_partition():
            if self._broker_id in state.hosts and f"{topic.name}-{index}" not in here:
                self._missing.add(TopicPartition(topic.topic_id, index))
        if self._missing:
            self._outbox.mark_changed(OutboxEntry.OFFLINE_REPLICAS)
            log.error("partitions offline: count=%d reason=log-dir-failed", len(self._missing))

    def add(self, tp: TopicPartition) -> None:
        """The replica cannot be opened."""
        self._missing.add(tp)
        self._outbox.mark_changed(OutboxEntry.OFFLINE_REPLICAS)

    def discard(self, tp: TopicPartition) -> None:
        """The replica is no longer assigned to this broker, or is created in another log directory."""
        if tp in self._missing:
            self._missing.discard(tp)
            self._outbox.mark_changed(OutboxEntry.OFFLINE_REPLICAS)
