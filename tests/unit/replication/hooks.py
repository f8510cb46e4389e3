"""Hooks of replicas without the other components of a broker."""

from __future__ import annotations

from collections.abc import Callable

from brokerd.cluster.model import Now, TopicPartition
from brokerd.replication.history_reads import HistoryReads
from brokerd.replication.replica import Replica


class RecordingHooks:
    """`ReplicaHooks` that record calls. `lost` is called with what a replica lacks. The image is always current."""

    def __init__(self, lost: Callable[[str], None] = lambda what: None) -> None:
        self.replica_lost = lost
        self.history_reads: HistoryReads | None = None
        self.followed: dict[TopicPartition, tuple[int, int]] = {}
        self.resumed: list[TopicPartition] = []
        self.leadership: list[tuple[str, int, int | None]] = []
        """(topic, partition, leader epoch; None: resigned)."""
        self.io_errors = self.failed_directories = 0

    def follow(self, tp: TopicPartition, leader: int, leader_epoch: int) -> None:
        self.followed[tp] = leader, leader_epoch

    def unfollow(self, tp: TopicPartition) -> None:
        self.followed.pop(tp, None)

    def resume(self, tp: TopicPartition) -> None:
        self.resumed.append(tp)

    def on_election(self, topic: str, partition: int, epoch: int, now: Now) -> None:
        self.leadership.append((topic, partition, epoch))

    def on_resignation(self, topic: str, partition: int, now: Now) -> None:
        self.leadership.append((topic, partition, None))

    def history_changed(self, replica: Replica) -> None:
        if self.history_reads is not None:
            self.history_reads.partition_changed(replica)

    def retain_history(self, replica: Replica) -> None:
        if self.history_reads is not None:
            self.history_reads.retain(replica)

    def image_is_current(self) -> bool:
        return True

    def confirm_leadership(self, done: Callable[[bool], None]) -> None:
        done(True)

    def io_error(self) -> None:
        self.io_errors += 1

    def directory_failed(self) -> None:
        self.failed_directories += 1
