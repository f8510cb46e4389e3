"""What a group of the new protocol (KIP-848) is told, what it answers, and the facts that make it up. Words without behaviour.

Called by `consumer_group` (the machine), `groups` (its place), `consumer_records` (how the facts stand in the log) and the door. Must not
come in: rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Protocol
from uuid import UUID

from brokerd.coordinator.assignors import Share

INVALID_REQUEST, GROUP_ID_NOT_FOUND, FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID = 42, 69, 110, 111
UNSUPPORTED_ASSIGNOR, STALE_MEMBER_EPOCH, INVALID_REGULAR_EXPRESSION = 112, 113, 128
JOINS, LEAVES, LEAVES_FOR_A_WHILE = 0, -1, -2
"""What a heartbeat may say instead of an epoch."""


class GroupState(Enum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


# -- facts -----------------------------------------------------------------------------------------------------------------
class Fact(IntEnum):
    """What a group is made of, one record each; the numbers are Kafka's key types. The name is a member id, a pattern or nothing."""

    GROUP = 3
    MEMBER = 5
    TARGET_EPOCH = 6
    TARGET = 7
    STANDING = 8
    PATTERN = 16


@dataclass(frozen=True, slots=True)
class Change:
    """`value`: Header, Profile, int, Share, Standing or Resolved; None: it is no more."""

    fact: Fact
    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class Header:
    """`topics_hash` is of all that the group is subscribed to, as it was when the epoch was raised."""

    epoch: int
    topics_hash: int = 0


@dataclass(frozen=True, slots=True)
class ClassicSide:
    """What a member of the classic protocol has beside: the session it asked for, and its protocols as they came."""

    session_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """Who a member is and what it wants. `rebalance_ms` is how long it may take to give partitions up; `classic` is of those who speak the
    classic protocol."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topics: frozenset[str]
    pattern: str | None
    rebalance_ms: int
    assignor: str | None
    classic: ClassicSide | None = None


@dataclass(frozen=True, slots=True)
class Resolved:
    """The topics that a pattern matched, at which version of the metadata and when (Unix ms)."""

    topics: frozenset[str]
    version: int
    wall_ms: int


# -- what it may look at -----------------------------------------------------------------------------------------------------
class Topics(Protocol):
    """The topics there are. `version` grows whenever one comes, goes or grows."""

    @property
    def version(self) -> int: ...

    def named(self, name: str) -> tuple[UUID, int] | None:
        """(topic id, partition count); None when there is none."""

    def names(self) -> Iterable[str]: ...


@dataclass(frozen=True, slots=True)
class Terms:
    """Times in ms. `assignors` are those that members may ask for; the first is taken where they ask for none. `assignment_ms` lies between
    two assignments at least."""

    session_ms: int
    heartbeat_ms: int
    size_max: int
    assignors: tuple[str, ...] = ("uniform", "range")
    assignment_ms: int = 0


# -- events ----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat, which is all there is: it joins, stays, asks, gives up and leaves. None (and -1) stand for what has not changed."""

    token: Any
    member_id: str
    epoch: int
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_ms: int = -1
    topics: frozenset[str] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: Share | None = None
    sees: Callable[[str], bool] | None = None
    """Whether the member may see a topic that its pattern matches; None: it may see all."""
    classic: ClassicSide | None = None
    """Of a JoinGroup, which is a heartbeat that says everything."""


# -- effects -----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Beaten:
    """`assigned` None: nothing has changed since."""

    error: int
    message: str | None = None
    member_id: str = ""
    epoch: int = 0
    heartbeat_ms: int = 0
    assigned: Share | None = None


@dataclass(frozen=True, slots=True)
class PersistChanges:
    """These changes together, as one batch of the log; `after_classic`: with them ends what the log says of the group as a classic one."""

    number: int
    changes: tuple[Change, ...]
    after_classic: bool = False
