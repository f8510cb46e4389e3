"""Replicas in this broker's log directories: opening, high watermark checkpoints, deletion.

Invariants: a log that ends below its checkpointed high watermark has lost records, and this is reported. A partition directory is deleted only
when no checkpoint names it, so a named directory that is missing means a lost replica. Does not contain: roles, the metadata log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.model import Now, TopicPartition, TopicState
from brokerd.cluster.znodes import LOST
from brokerd.replication.damage_reports import DamageReports
from brokerd.replication.partition import Partition
from brokerd.replication.replica import Replica
from brokerd.storage import checkpoints
from brokerd.storage.disk import DiskFailed
from brokerd.storage.log_dirs import LogDir, LogDirs


class ReplicaOpening:
    """`machine` creates a partition's state machine. `hosted`: all open replicas. `on_lost` is called with a description of the lost records.
    `is_assigned(topic, partition)`: whether the metadata assigns the partition to this broker."""

    def __init__(
        self,
        log_dirs: LogDirs,
        hosted: Mapping[TopicPartition, Replica],
        damage_reports: DamageReports,
        machine: Callable[[TopicPartition], Partition],
        producer_expiration_ms: int,
        on_lost: Callable[[str], None],
        is_assigned: Callable[[str, int], bool],
    ) -> None:
        self._log_dirs, self._hosted, self._damage_reports, self._machine = log_dirs, hosted, damage_reports, machine
        self._producer_expiration_ms, self._on_lost = producer_expiration_ms, on_lost
        self._is_assigned = is_assigned
        self.pending_deletion: list[Replica] = []
        """Replicas that were removed and not deleted yet."""
        self.registration_possible = False
        """True if this broker may be in an ISR. Then no replica may have lost records."""
        log_dirs.read_high_watermarks()

    def open(self, tp: TopicPartition, topic: TopicState, config: TopicConfig, now: Now) -> Replica:
        """Raises DiskFull, DiskFailed, OSError."""
        self.delete_pending()  # a deleted topic of the same name may have used this directory
        opened, fresh = self._log_dirs.open(topic.name, tp, config, now)
        opened.producer_expiration_ms = self._producer_expiration_ms
        name = f"{topic.name}-{tp.partition}"
        if fresh and name in self._log_dirs.gone:
            self._damage_reports.add(name, tp, LOST, "folder missing at the start; the replica is fetched again")
        self._log_dirs.gone.discard(name)
        committed = 0 if fresh else self._log_dirs.high_watermark((topic.name, tp.partition))
        if opened.end_offset < committed:
            try:
                self.report_loss(f"the log of {name} ends at {opened.end_offset}, below its high watermark {committed}")
            except DiskFailed:
                opened.close()
                raise
            self._damage_reports.add(
                name,
                tp,
                LOST,
                f"log end {opened.end_offset} is below the high watermark {committed}; the rest is fetched again",
            )
        machine = self._machine(tp)
        machine.high_watermark = max(opened.start_offset, min(committed, opened.end_offset))
        self._log_dirs.directory_of(opened.folder).replica_count += 1
        return Replica(tp, topic.name, opened.config, opened, machine)

    def report_loss(self, description: str) -> None:
        """Report that a log lacks records. `description` names them. Raises DiskFailed if this broker may already be in an ISR, because only the next start
        can handle the loss then."""
        if self.registration_possible:
            raise DiskFailed(f"{description}; found after registration, the next start handles it")
        self._on_lost(description)

    def delete_pending(self) -> None:
        """Delete the directories of the replicas in `pending_deletion`."""
        if not self.pending_deletion:
            return
        gone = {(r.topic, r.tp.partition) for r in self.pending_deletion}
        for d in {self._log_dirs.directory_of(replica.log.folder) for replica in self.pending_deletion}:
            # Not `checkpoint`: while an image is loaded, replicas that are not open yet need their checkpointed high watermark.
            high = {**d.high_watermarks, **self._high_watermarks(d)}
            self._log_dirs.write_high_watermarks(d, {key: offset for key, offset in high.items() if key not in gone})
        while self.pending_deletion:
            self._log_dirs.remove(self.pending_deletion.pop().log)

    def checkpoint(self) -> None:
        """Write the high watermark checkpoints, at most each log's end offset. One file per log directory. Before the first image is loaded no replica
        is open, and the files of the last run must stay: only they show that a log lost records."""
        if self.registration_possible:
            for d in self._log_dirs.online:
                self._log_dirs.write_high_watermarks(d, self._high_watermarks(d))

    def checkpoint_later(self) -> None:
        """Like `checkpoint`, but on the threads of the log directories, so that a slow disk does not stop the event loop."""
        if self.registration_possible:
            for d in self._log_dirs.online:
                self._log_dirs.checkpoint(d, self._high_watermarks(d))

    def _high_watermarks(self, directory: LogDir) -> checkpoints.Offsets:
        """Checkpoints of the open replicas in `directory`, and of assigned replicas that could not be opened. The latter keep the offset of
        their last checkpoint."""
        opened = {(r.topic, r.tp.partition): r for r in self._hosted.values()}
        kept = {
            key: offset
            for key, offset in directory.high_watermarks.items()
            if key not in opened and self._is_assigned(*key)
        }
        return kept | {
            key: min(r.core.high_watermark, r.log.end_offset)
            for key, r in opened.items()
            if r.log.folder.parent == directory.path
        }
