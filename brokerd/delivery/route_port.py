"""Interface between a route and its broker: the log of the source partition, the targets, permissions and quotas, and the group coordinator. Interfaces
and values only.

Does not contain: what is read, sent and committed (`route_partition`), requests (`brokerd/runtime/routing.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple, Protocol
from uuid import UUID

from brokerd.cluster.model import Now
from brokerd.wire.errors import ErrorCode


class RouteState(StrEnum):
    STARTING = "starting"
    """The committed position is being read, or the first position is being committed."""
    RUNNING = "running"
    THROTTLED = "throttled"
    """A quota of the route's principal is exceeded, and records wait."""
    BLOCKED = "blocked"
    """State of a route of which at least one target does not accept records, or that may not read its source."""


class RouteProblem(StrEnum):
    TARGET_MISSING = "target_missing"
    """The topic does not exist, or was deleted."""
    TARGET_UNAVAILABLE = "target_unavailable"
    """The partition has no leader, too few replicas in sync, or does not respond."""
    TARGET_REJECTED = "target_refused"
    """The partition rejects the batch, for example because a record is larger than max.message.bytes."""
    TARGET_NOT_AUTHORIZED = "target_not_authorized"
    """The principal of the route may not write to the topic."""
    SOURCE_NOT_AUTHORIZED = "source_not_authorized"
    """The principal of the route may not read the source topic."""


class Target(NamedTuple):
    """A target topic that exists. `batch_bytes_max`: its max.message.bytes. `recompresses`: it has a compression.type of its own, so that a batch
    need not be compressed before."""

    topic_id: UUID
    partitions: int
    batch_bytes_max: int
    recompresses: bool = False


class RoutePosition(NamedTuple):
    """A committed position. `offset` -1: none."""

    offset: int
    metadata: str


class RoutePort(Protocol):
    """The source partition that this broker leads, and the connections to the targets and to the group coordinator. A callback is called once,
    never within the call that passed it."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def last_stable_offset(self) -> int: ...

    @property
    def has_room(self) -> bool:
        """True if the routes of this broker may buffer more records."""
        ...

    def read(self, offset: int, bytes_max: int, upto: int) -> bytes | None:
        """Batches from the one that contains `offset`, below `upto`. None: they are not in the page cache yet."""
        ...

    def aborted_transactions(self, offset: int, upto: int) -> list[tuple[int, int, int]]:
        """(producer id, first offset, offset of the marker) of the aborted transactions in the range."""
        ...

    def target(self, topic: str) -> Target | None: ...

    def send(
        self,
        topic_id: UUID,
        partition: int,
        batch: bytes,
        expected: int,
        done: Callable[[ErrorCode, int, Now], None],
    ) -> None:
        """Append to the target partition if `expected` is the last source offset there. `done`: error, and the last source offset there if the
        error is OUT_OF_ORDER_SEQUENCE_NUMBER."""
        ...

    def may_read(self, principal: str) -> bool:
        """Return whether the principal may read the source topic now."""
        ...

    def may_write(self, principal: str, topic: str) -> bool: ...

    def quota_limit(self, principal: str, quota: str) -> float | None:
        """The limit of this quota (a key of `quota_entities`) of the principal, in bytes per second."""
        ...

    def count_bytes(self, principal: str, quota: str, size: int, now: Now) -> int:
        """Count the bytes on this broker. Return the milliseconds for which the principal has to wait."""
        ...

    def wake(self) -> None:
        """Call `tick` soon. Several calls in one iteration of the event loop cause one tick."""
        ...

    def fetch_position(self, done: Callable[[ErrorCode, RoutePosition, Now], None]) -> None: ...

    def commit_position(self, position: RoutePosition, done: Callable[[ErrorCode, Now], None]) -> None: ...
