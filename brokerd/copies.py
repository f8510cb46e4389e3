"""Copies of partitions on this broker's disks: opened as what they are, counted in the checkpoint of high watermarks, buried when they are given up.

Laws: a copy that ends below what the checkpoint calls committed has lost something, and is not opened in silence; a folder goes only once no checkpoint names
it, so that a folder that is named and is gone means a lost copy. Called by `partitions`. Must not come in: roles, the metadata log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.model import Now, TopicPartition, TopicState
from brokerd.cluster.znodes import LOST
from brokerd.findings import Findings
from brokerd.logdirs import LogDir, LogDirs
from brokerd.partition import Partition
from brokerd.replica import Replica
from brokerd.storage import checkpoints
from brokerd.storage.disk import DiskFailed


class Copies:
    """`machine` makes a partition's machine; `hosted` is everything open, by whoever opened it."""

    def __init__(
        self,
        log_dirs: LogDirs,
        hosted: Mapping[TopicPartition, Replica],
        findings: Findings,
        machine: Callable[[TopicPartition], Partition],
        producer_expiration_ms: int,
    ) -> None:
        self._log_dirs, self._hosted, self._findings, self._machine = log_dirs, hosted, findings, machine
        self._producer_expiration_ms = producer_expiration_ms
        self.doomed: list[Replica] = []
        """Given up, and not buried yet."""
        self.settled = False
        """This broker may have a seat, which rests on the belief that nothing is missing."""
        self.tell_lost: Callable[[str], None] = lambda what: None
        log_dirs.read_high_watermarks()
        log_dirs.lost = self.lost

    def open(self, tp: TopicPartition, topic: TopicState, config: TopicConfig, now: Now) -> Replica:
        """Raises DiskFull, DiskFailed, OSError."""
        self.bury()  # a topic of the same name may have had this folder
        opened, fresh = self._log_dirs.open(topic.name, tp, config, now)
        opened.producer_expiration_ms = self._producer_expiration_ms
        name = f"{topic.name}-{tp.partition}"
        if fresh and name in self._log_dirs.gone:
            self._findings.add(name, tp, LOST, "its folder was gone at the start; it is fetched anew")
        self._log_dirs.gone.discard(name)
        committed = 0 if fresh else self._log_dirs.high_watermark((topic.name, tp.partition))
        if opened.end_offset < committed:
            try:
                self.lost(f"the log of {name} ends at {opened.end_offset}, below its high watermark {committed}")
            except DiskFailed:
                opened.close()
                raise
            self._findings.add(
                name, tp, LOST, f"it ends at {opened.end_offset}, {committed} was committed; the rest is fetched anew"
            )
        machine = self._machine(tp)
        machine.high_watermark = max(opened.start_offset, min(committed, opened.end_offset))
        self._log_dirs.of(opened.folder).held += 1
        return Replica(tp, topic.name, opened.config, opened, machine)

    def lost(self, what: str) -> None:
        """Raises DiskFailed once this broker may have a seat: the next start settles it."""
        if self.settled:
            raise DiskFailed(f"{what}; found too late for this life, the next start settles it")
        self.tell_lost(what)

    def bury(self) -> None:
        """Delete what was given up."""
        if not self.doomed:
            return
        gone = {(r.topic, r.tp.partition) for r in self.doomed}
        for d in {self._log_dirs.of(replica.log.folder) for replica in self.doomed}:
            # Not `checkpoint`: while an image is being loaded, what is not open yet still needs its number.
            high = {**d.high_watermarks, **self._now_high(d)}
            self._log_dirs.write_high_watermarks(d, {key: offset for key, offset in high.items() if key not in gone})
        while self.doomed:
            self._log_dirs.remove(self.doomed.pop().log)

    def checkpoint(self) -> None:
        """Write down high watermarks (each min(HW, end)), a directory's whole file at once."""
        for d in self._log_dirs.online:
            self._log_dirs.write_high_watermarks(d, self._now_high(d))

    def _now_high(self, d: LogDir) -> checkpoints.Offsets:
        return {
            (r.topic, r.tp.partition): min(r.core.high_watermark, r.log.end_offset)
            for r in self._hosted.values()
            if r.log.folder.parent == d.path
        }
