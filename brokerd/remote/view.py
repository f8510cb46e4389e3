"""The remote records of a partition, as a broker knows them. Read by fetches, look-ups and, on the leader, by local retention.

Invariants: before the remote log is loaded, records below the local log are possibly remote: nothing is out of range, and nothing local is deleted.
On a follower no record is out of range that the leader may have: its remote log may be older than its local one.
Does not contain: the remote log itself (`remote_log`), decisions (`leader`).
"""

from __future__ import annotations

from brokerd.remote.lineage import Chain


class RemoteView:
    """View of the remote log by the leader. `loaded`: the remote log was read up to this leader's claim."""

    __slots__ = ("chain", "loaded", "log_start")

    def __init__(self) -> None:
        self.loaded = False
        self.chain = Chain()
        self.log_start = 0
        """Records below are deleted in both tiers."""

    def reaches_below(self, local_start: int) -> bool:
        """Return whether there are, or may be, remote records directly below the local log."""
        if not self.loaded:
            return local_start > 0
        return self.start_offset(local_start) < local_start

    def start_offset(self, local_start: int) -> int:
        """The log start offset of the partition over both tiers."""
        if not self.joins(local_start):
            return max(local_start, self.log_start)
        return max(min(self.chain.start, local_start), self.log_start)

    def joins(self, local_start: int) -> bool:
        """Return whether the remote records are known to reach the local log."""
        return self.loaded and 0 <= self.chain.start <= local_start <= self.chain.end

    def copied_end(self, local_start: int) -> int:
        """Local records below this offset have a finished copy. At most `local_start` if there are none."""
        return self.chain.end if self.joins(local_start) else local_start


class FollowerView(RemoteView):
    """View of the remote log by a follower. `loaded`: the remote log was read up to its end at that time. The follower's local log start follows the
    leader's, and may pass the end of the chain before the follower has read that the copy is finished."""

    __slots__ = ()

    def reaches_below(self, local_start: int) -> bool:
        return super().reaches_below(local_start) if self.joins(local_start) else local_start > self.log_start

    def start_offset(self, local_start: int) -> int:
        """Return the log start offset for clients. If the chain does not reach the local log, only records below the remote log start are known to be
        deleted."""
        return super().start_offset(local_start) if self.joins(local_start) else self.log_start
