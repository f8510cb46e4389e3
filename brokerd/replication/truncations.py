"""Records that replicas of this broker deleted from the end of their logs, because the leader did not have them.

Invariants: only truncations that removed records are kept, the newest of two groups: an ordinary change of the leader, which often removes records that were not
acknowledged, does not displace a loss of acknowledged records. Does not contain: the truncation (`follower_log`), the files (`stored_truncations`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from brokerd.cluster.model import TopicPartition

BELOW_HIGH_WATERMARK_MAX = 1_000
"""Maximum number of kept truncations below the high watermark, about 60 bytes each in a response. A broker that rejoins after unclean elections has one for
each of its partitions."""

OTHERS_MAX = 100
"""Maximum number of other kept truncations."""


class Truncation(NamedTuple):
    """The records of the offsets `first_offset` to `end_offset` - 1 were deleted. `high_watermark`: of the replica before; it may be older than that of the
    leader. `leader_epoch`: of the leader that did not have the records. `at_ms`: Unix time."""

    tp: TopicPartition
    first_offset: int
    end_offset: int
    high_watermark: int
    leader_epoch: int
    at_ms: int


class Truncations:
    def __init__(self) -> None:
        self._below_high_watermark: deque[Truncation] = deque(maxlen=BELOW_HIGH_WATERMARK_MAX)
        self._others: deque[Truncation] = deque(maxlen=OTHERS_MAX)

    def add(self, truncation: Truncation) -> bool:
        """Return whether it is kept."""
        if truncation.first_offset >= truncation.end_offset:
            return False
        is_loss = truncation.first_offset < truncation.high_watermark
        (self._below_high_watermark if is_loss else self._others).append(truncation)
        return True

    def __iter__(self) -> Iterator[Truncation]:
        return chain(self._below_high_watermark, self._others)
