"""Values of an offset reset: its limits, targets, states, the request, and the offsets of each partition before and after it. Pure.

Does not contain: which partitions and offsets a reset has (`offset_reset`), the stored form of its rows (`offset_reset_json`), texts (`offset_reset_texts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NotRequired, TypedDict

RESET_PARTITIONS_MAX = 20_000
"""Maximum number of partitions of one reset. Its row contains the offsets of each partition, about 150 bytes."""

OFFSET_MAX = 2**63 - 1
"""The largest offset: an offset is an int64."""

PREVIEW_MINUTES = 30
"""Maximum age of a preview that may still be applied. The log end offsets change, and with them the meaning of `latest`."""

WAIT_MINUTES_MAX = 24 * 60
"""Maximum number of minutes for which a reset waits until the group has no members. A forgotten reset must not take effect days later."""

UNDO_DAYS = 7
"""Days for which the offsets before a reset are stored for an undo."""

Key = tuple[str, int]
"""(topic, partition index)"""


class ResetTarget(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"
    TIME = "time"
    OFFSET = "offset"
    SHIFT = "shift"
    GROUP = "group"
    FILE = "file"
    DELETE = "delete"
    UNDO = "undo"


class ResetState(StrEnum):
    PREVIEWED = "previewed"
    WAITING = "waiting"
    APPLYING = "applying"
    APPLIED = "applied"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class LimitedBy(StrEnum):
    """The end of the log that limited the requested offset."""

    NO = ""
    LOG_START = "log_start"
    LOG_END = "log_end"


class RowProblem(StrEnum):
    """The reason why a reset does not change a partition."""

    NO_PARTITION = "no_partition"
    NO_LEADER = "no_leader"
    NO_COMMITTED_OFFSET = "no_committed_offset"
    NO_SOURCE_OFFSET = "no_source_offset"
    OPEN_TRANSACTION = "open_transaction"


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """All fields that OffsetFetch returns for a partition. The metadata is a text of the client."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


@dataclass(frozen=True, slots=True)
class LogRange:
    """Log start offset and log end offset."""

    start: int
    end: int


class StoredReset(TypedDict):
    """A `ResetSpec` as JSON. Fields without a value are missing. `partitions`: [topic, partition]; `offsets`: [topic, partition, offset]."""

    target: str
    topics: NotRequired[list[str]]
    partitions: NotRequired[list[list[str | int]]]
    time_ms: NotRequired[int]
    offset: NotRequired[int]
    shift: NotRequired[int]
    undone: NotRequired[int]
    source_group: NotRequired[str]
    offsets: NotRequired[list[list[str | int]]]


@dataclass(frozen=True, slots=True)
class ResetSpec:
    """A request to reset offsets. `topics`: all their partitions; `partitions`: single ones. Without both: the partitions that `offsets`, the source group
    or the undone reset name, otherwise all with a committed offset. `time_ms`: the first record at or after this time. `shift`: records, negative
    = back. `offsets`: of a file. `undone`: the reset that an undo reverses."""

    target: ResetTarget
    topics: tuple[str, ...] = ()
    partitions: tuple[Key, ...] = ()
    time_ms: int | None = None
    offset: int | None = None
    shift: int | None = None
    source_group: str = ""
    offsets: Mapping[Key, int] = field(default_factory=dict)
    undone: int | None = None

    def to_json(self) -> StoredReset:
        out: StoredReset = {"target": self.target.value}
        if self.topics:
            out["topics"] = list(self.topics)
        if self.partitions:
            out["partitions"] = [list(k) for k in self.partitions]
        if self.time_ms is not None:
            out["time_ms"] = self.time_ms
        if self.offset is not None:
            out["offset"] = self.offset
        if self.shift is not None:
            out["shift"] = self.shift
        if self.undone is not None:
            out["undone"] = self.undone
        if self.source_group:
            out["source_group"] = self.source_group
        if self.offsets:
            out["offsets"] = [[t, p, o] for (t, p), o in sorted(self.offsets.items())]
        return out

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ResetSpec:
        return ResetSpec(
            target=ResetTarget(data["target"]),
            topics=tuple(data.get("topics", ())),
            partitions=tuple((t, p) for t, p in data.get("partitions", ())),
            time_ms=data.get("time_ms"),
            offset=data.get("offset"),
            shift=data.get("shift"),
            source_group=data.get("source_group", ""),
            offsets={(t, p): o for t, p, o in data.get("offsets", ())},
            undone=data.get("undone"),
        )


@dataclass(frozen=True, slots=True)
class PartitionReset:
    """One partition of a reset. `after` None without a problem: the committed offset is deleted. `replayed`, `skipped`: records between the two
    offsets; None where the group has no offset before or after. `lost`: records that retention deleted before the group read them, so the group
    was overtaken. `span_ms`: time between the records at both offsets; None = unknown; `span_at_least`: it may be longer."""

    topic: str
    partition: int
    now: CommittedOffset | None
    after: CommittedOffset | None
    log_start: int | None = None
    log_end: int | None = None
    limited: LimitedBy = LimitedBy.NO
    problem: RowProblem | None = None
    replayed: int | None = None
    skipped: int | None = None
    lost: int = 0
    span_ms: int | None = None
    span_at_least: bool = False

    @property
    def key(self) -> Key:
        return self.topic, self.partition

    @property
    def overtaken(self) -> bool:
        return self.lost > 0

    @property
    def changes(self) -> bool:
        return self.problem is None and self.after != self.now


@dataclass(frozen=True, slots=True)
class ResetTotals:
    """Sums over the partitions of a reset. `problems`: partitions that it does not change because of a problem. `overtaken`: partitions of which
    retention deleted records before the group read them."""

    partitions: int = 0
    changes: int = 0
    problems: int = 0
    replayed: int = 0
    skipped: int = 0
    overtaken: int = 0
    limited: int = 0


@dataclass(frozen=True, slots=True)
class OffsetDifference:
    """A committed offset that differs from the preview."""

    topic: str
    partition: int
    expected: CommittedOffset | None
    found: CommittedOffset | None


@dataclass(frozen=True, slots=True)
class ReportedDifference:
    """A committed offset that differs from the preview. `expected`: in the preview; `found`: now; null = no committed offset."""

    topic: str
    partition: int
    expected: int | None
    found: int | None
