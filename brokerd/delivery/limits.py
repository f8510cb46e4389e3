"""Times and limits of front partitions that the simulation and tests make smaller. A broker uses the defaults.

They are arguments, because compiled code does not see every replacement of a constant or method (decision 110). Does not contain: the buckets of delayed
messages (`delay_schedule`, which is not compiled).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeliveryLimits:
    first_check_ms: int = 6_000
    """Time from the append of a half message to its first check."""
    check_interval_ms: int = 30_000
    checks_max: int = 15
    undecided_max: int = 250_000
    """Maximum number of undecided half messages of one partition. Each needs about 300 bytes and its id in memory."""
    decided_max: int = 100_000
    """Maximum number of decided ids that are remembered, so that a second decision gets the first one as its response. An older id counts as unknown."""
    decided_keep_ms: int = 600_000
    """Time for which decided records stay in the log. It is longer than the time from a message to its expiry."""
    batch_records: int = 250
    """Maximum number of records of one batch to a target. Limits the work of one iteration of the event loop."""
    offsets_per_chunk: int = 256
    """Number of offsets per chunk. Pending records are counted per chunk, and the log start offset is raised by whole chunks."""
    log_start_ms: int = 5_000
    """Minimum time between two raises of the log start offset, because each raise is flushed."""
    index_interval_ms: int = 1_000
    """Time between two searches of a front partition of delayed messages for indexes of newly closed segments."""

    def check_at_ms(self, appended_at_ms: int, number: int) -> int:
        """The time of check `number` of a half message. `checks_max` + 1 stands for the expiry."""
        return appended_at_ms + self.first_check_ms + (number - 1) * self.check_interval_ms


DEFAULT_LIMITS = DeliveryLimits()
