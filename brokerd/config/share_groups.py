"""Settings of share groups (KIP-932), under Kafka's names: of the broker and of single groups. Does not contain their effect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC, topic_name_problem
from brokerd.config.types import Setting, split_items

SHARE_ASSIGNORS = ("simple",)
EARLIEST, LATEST, BY_DURATION = "earliest", "latest", "by_duration:"
ISOLATION_LEVEL = "share.isolation.level"
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
DEAD_LETTER_TOPIC, COPY_RECORD = "errors.deadletterqueue.topic.name", "errors.deadletterqueue.copy.record.enable"
KEY_ORDER = "weir.share.key.order.enable"
DEAD_LETTER_PREFIX = "errors.deadletterqueue.topic.name.prefix"
_INTERNAL = (GROUP_OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC)
_DURATION = re.compile(
    r"P(?:(?P<d>\d{1,9})D)?(?:T(?:(?P<h>\d{1,9})H)?(?:(?P<m>\d{1,9})M)?(?:(?P<s>\d{1,9})(?:\.(?P<f>\d{1,9}))?S)?)?\Z"
)


def _share_assignors(text: str) -> tuple[str, ...]:
    if split_items(text) != SHARE_ASSIGNORS:
        raise ValueError("expected simple; custom assignor classes are not supported")
    return SHARE_ASSIGNORS


def duration_ms(text: str) -> int:
    """The time in an ISO 8601 duration such as PT1H30M or P2DT0.5S (ms). Raises ValueError."""
    found = _DURATION.match(text)
    if found is None or not any(found.groups()) or text.endswith("T"):
        raise ValueError(f"{text[:40]!r} is not an ISO 8601 duration such as PT1H30M")
    d, h, m, s = (int(found[name] or 0) for name in "dhms")
    return ((d * 24 + h) * 60 + m) * 60_000 + s * 1000 + int((found["f"] or "").ljust(3, "0")[:3] or 0)


@dataclass(frozen=True, slots=True)
class ShareGroupConfig:
    """The settings of one share group. Times in ms. `reset_ms`: the share partition starts at the first record that is at most this old;
    None: `reset` is earliest or latest."""

    session_ms: int = 45_000
    heartbeat_ms: int = 5_000
    assignment_ms: int = 1_000
    size_max: int = 200
    lock_ms: int = 30_000
    deliveries_max: int = 5
    locks_max: int = 2_000
    reset: str = LATEST
    reset_ms: int | None = None
    committed: bool = False
    renew: bool = True
    dead_letter_topic: str = ""
    """Records that are rejected or delivered too often have a dead letter in this topic (KIP-1191). Empty: none."""
    copy_record: bool = False
    """Dead letters have the key and the value of the record."""
    key_order: bool = False
    """A record is delivered only while no other member holds a record with the same key."""


SHARE_SETTINGS: tuple[Setting, ...] = (
    Setting("group.share.session.timeout.ms", int, 45_000, "Session time-out of members of share groups.", 1),
    Setting("group.share.min.session.timeout.ms", int, 45_000, "Minimum session time-out that may be set for a share group.", 1),
    Setting("group.share.max.session.timeout.ms", int, 60_000, "Maximum session time-out that may be set for a share group.", 1),
    Setting("group.share.heartbeat.interval.ms", int, 5_000, "Interval at which members of share groups send heartbeats.", 1),
    Setting("group.share.min.heartbeat.interval.ms", int, 5_000, "Minimum heartbeat interval that may be set for a share group.", 1),
    Setting("group.share.max.heartbeat.interval.ms", int, 15_000, "Maximum heartbeat interval that may be set for a share group.", 1),
    Setting("group.share.assignment.interval.ms", int, 1_000, "Minimum time between two assignments of a share group.", 0),
    Setting("group.share.min.assignment.interval.ms", int, 0, "Minimum assignment interval that may be set for a share group.", 0),
    Setting("group.share.max.assignment.interval.ms", int, 15_000, "Maximum assignment interval that may be set for a share group.", 0),
    Setting("group.share.max.size", int, 200, "Maximum number of members of a share group. Each join recomputes the assignment in the event loop.", 1),
    Setting("group.share.assignors", _share_assignors, SHARE_ASSIGNORS, "The server-side assignor of share groups."),
    Setting("group.share.record.lock.duration.ms", int, 30_000, "Time for which a member of a share group holds an acquired record.", 1_000),
    Setting("group.share.min.record.lock.duration.ms", int, 15_000, "Minimum lock duration that may be set for a share group.", 1_000),
    Setting("group.share.max.record.lock.duration.ms", int, 60_000, "Maximum lock duration that may be set for a share group.", 1_000),
    Setting("group.share.delivery.count.limit", int, 5, "Number of deliveries after which a record of a share group is not delivered again.", 2),
    Setting("group.share.min.delivery.count.limit", int, 2, "Minimum number of deliveries that may be set for a share group.", 2),
    Setting("group.share.max.delivery.count.limit", int, 10, "Maximum number of deliveries that may be set for a share group.", 2),
    Setting("group.share.partition.max.record.locks", int, 2_000, "Maximum number of records in flight per share partition. It limits the memory and the size of the stored state.", 100),
    Setting("group.share.min.partition.max.record.locks", int, 100, "Minimum number of records in flight that may be set for a share group.", 100),
    Setting("group.share.max.partition.max.record.locks", int, 4_000, "Maximum number of records in flight that may be set for a share group.", 100),
    Setting("group.share.max.share.sessions", int, 2_000, "Maximum number of share sessions per broker. Each member has one session with each broker that it fetches from.", 1),
    Setting(DEAD_LETTER_PREFIX, str, "dlq.", "Topics of dead letters of share groups must have a name with this prefix (KIP-1191). Empty: any name. It keeps a producer from writing to another topic by records that a share group rejects."),
    Setting("share.coordinator.snapshot.update.records.per.snapshot", int, 500, "Number of updates of a share partition in __share_group_state between two snapshots.", 0),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ShareConfigDefinition:
    """A setting of single share groups. `broker` is the broker setting with its default, None if there is none; then `default` is the
    default. `low` and `high` are the broker settings with its bounds."""

    doc: str
    broker: str | None = None
    low: str | None = None
    high: str | None = None
    default: str = ""


def _bounded_config(name: str, doc: str) -> ShareConfigDefinition:
    return ShareConfigDefinition(doc, f"group.share.{name}", f"group.share.min.{name}", f"group.share.max.{name}")


SHARE_CONFIGS = {
    "share.session.timeout.ms": _bounded_config(
        "session.timeout.ms", "Session time-out of the members of this share group."
    ),
    "share.heartbeat.interval.ms": _bounded_config(
        "heartbeat.interval.ms", "Interval at which the members of this share group send heartbeats."
    ),
    "share.assignment.interval.ms": _bounded_config(
        "assignment.interval.ms", "Minimum time between two assignments of this share group."
    ),
    "share.record.lock.duration.ms": _bounded_config(
        "record.lock.duration.ms", "Time for which a member holds an acquired record."
    ),
    "share.delivery.count.limit": _bounded_config(
        "delivery.count.limit", "Number of deliveries after which a record is not delivered again."
    ),
    "share.partition.max.record.locks": _bounded_config(
        "partition.max.record.locks", "Maximum number of records in flight per share partition."
    ),
    "share.auto.offset.reset": ShareConfigDefinition(
        "Where a new share partition starts: latest, earliest, or by_duration:<ISO 8601 duration>.", default=LATEST
    ),
    ISOLATION_LEVEL: ShareConfigDefinition(
        "read_committed: records of aborted transactions are not delivered. read_uncommitted: all records are delivered.",
        default=READ_UNCOMMITTED,
    ),
    "share.renew.acknowledge.enable": ShareConfigDefinition(
        "Whether members may renew the lock of a record (acknowledge type renew).", default="true"
    ),
    DEAD_LETTER_TOPIC: ShareConfigDefinition(
        "The topic of dead letters (KIP-1191). It must have errors.deadletterqueue.group.enable=true, and its name the prefix errors.deadletterqueue.topic.name.prefix. Empty: no dead letters."
    ),
    COPY_RECORD: ShareConfigDefinition(
        "true: a dead letter has the key and the value of the record. false: only headers that name the record.",
        default="false",
    ),
    KEY_ORDER: ShareConfigDefinition(
        "true: records with the same key are delivered in order, and never to two members at the same time. false: a share group has no order, as in Kafka.",
        default="false",
    ),
}
"""Kafka's settings of share groups, and KEY_ORDER. `share.assignor.offload.enable` has no effect here and is not accepted."""


def share_problem(overrides: Mapping[str, str], values: Mapping[str, Any]) -> str | None:
    """Return the reason why the share settings `overrides` of a group are invalid, or None. `values` are the broker's settings."""
    for name, text in overrides.items():
        c = SHARE_CONFIGS[name]
        if c.low is not None and c.high is not None:
            low, high = values[c.low], values[c.high]
            if not (text.isascii() and text.isdecimal()) or not low <= int(text[:10]) <= high:
                return f"{name}={text[:40]!r} is not a number between {low} and {high} ({c.low}, {c.high})"
        elif name == "share.auto.offset.reset":
            if text not in (EARLIEST, LATEST):
                try:
                    if not text.startswith(BY_DURATION):
                        raise ValueError(f"expected {LATEST}, {EARLIEST} or {BY_DURATION}<ISO 8601 duration>")
                    duration_ms(text.removeprefix(BY_DURATION))
                except ValueError as e:
                    return f"{name}={text[:60]!r}: {e}"
        elif name == ISOLATION_LEVEL:
            if text not in (READ_COMMITTED, READ_UNCOMMITTED):
                return f"{name}={text[:40]!r} is not {READ_COMMITTED} or {READ_UNCOMMITTED}"
        elif name == DEAD_LETTER_TOPIC:
            wrong = dead_letter_name_problem(text, values[DEAD_LETTER_PREFIX])
            if text and wrong is not None:
                return f"{name}={text[:60]!r}: {wrong}"
        elif text not in ("true", "false"):
            return f"{name}={text[:40]!r} is not true or false"
    config = share_group_config(values, overrides)
    return (
        None
        if config.heartbeat_ms < config.session_ms
        else "the heartbeat interval of a share group must be below its session time-out"
    )


def dead_letter_name_problem(topic: str, prefix: str) -> str | None:
    """Return the reason why a topic with this name may not have dead letters, or None."""
    if topic in _INTERNAL:
        return "an internal topic cannot have dead letters"
    if not topic.startswith(prefix):
        return f"the name must begin with {prefix} ({DEAD_LETTER_PREFIX})"
    return topic_name_problem(topic)


def check_share(values: Mapping[str, Any]) -> None:
    """Raises ValueError for settings that contradict each other."""
    for c in SHARE_CONFIGS.values():
        if c.broker is None or c.low is None or c.high is None:
            continue
        if not values[c.low] <= values[c.broker] <= values[c.high]:
            raise ValueError(
                f"{c.broker}={values[c.broker]} is not between {c.low} ({values[c.low]}) and {c.high} ({values[c.high]})"
            )
    if values["group.share.heartbeat.interval.ms"] >= values["group.share.session.timeout.ms"]:
        raise ValueError("group.share.heartbeat.interval.ms is not below group.share.session.timeout.ms")


def share_group_config(values: Mapping[str, Any], overrides: Mapping[str, str]) -> ShareGroupConfig:
    """The effective settings of a share group. `overrides` are the settings of the group. Bounds are not checked: another broker may have had other
    bounds."""

    def of(name: str) -> Any:
        c = SHARE_CONFIGS[name]
        return overrides.get(name, values[c.broker] if c.broker is not None else c.default)

    reset = str(of("share.auto.offset.reset"))
    return ShareGroupConfig(
        session_ms=int(of("share.session.timeout.ms")),
        heartbeat_ms=int(of("share.heartbeat.interval.ms")),
        assignment_ms=int(of("share.assignment.interval.ms")),
        size_max=values["group.share.max.size"],
        lock_ms=int(of("share.record.lock.duration.ms")),
        deliveries_max=int(of("share.delivery.count.limit")),
        locks_max=int(of("share.partition.max.record.locks")),
        reset=reset,
        reset_ms=duration_ms(reset.removeprefix(BY_DURATION)) if reset.startswith(BY_DURATION) else None,
        committed=of(ISOLATION_LEVEL) == READ_COMMITTED,
        renew=of("share.renew.acknowledge.enable") == "true",
        dead_letter_topic=str(of(DEAD_LETTER_TOPIC)),
        copy_record=of(COPY_RECORD) == "true",
        key_order=of(KEY_ORDER) == "true",
    )
