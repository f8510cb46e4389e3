"""What the leader of a partition knows about its remote records. Read by fetches, look-ups and local retention.

Invariants: before the remote log is loaded, records below the local log are possibly remote: nothing is out of range, and nothing local is deleted.
Does not contain: the remote log itself (`remote_log`), decisions (`leader`).
"""

from __future__ import annotations

from brokerd.remote.lineage import Chain


class RemoteView:
    """`loaded`: the remote log was read up to this leader's claim."""

    __slots__ = ("chain", "loaded", "log_start")

    def __init__(self) -> None:
        self.loaded = False
        self.chain = Chain()
        self.log_start = 0
        """Records below are deleted in both tiers."""

    def reaches_below(self, local_start: int) -> bool:
        """Whether there are, or may be, remote records directly below the local log."""
        if not self.loaded:
            return local_start > 0
        return self.start_offset(local_start) < local_start

    def start_offset(self, local_start: int) -> int:
        """The log start offset of the partition over both tiers."""
        chain = self.chain
        if not self.loaded or not chain.start <= local_start <= chain.end:
            return max(local_start, self.log_start)
        return max(min(chain.start, local_start), self.log_start)

    def copied_end(self, local_start: int) -> int:
        """Local records below this offset have a finished copy. At most `local_start` if there are none."""
        chain = self.chain
        return chain.end if self.loaded and 0 <= chain.start <= local_start <= chain.end else local_start
