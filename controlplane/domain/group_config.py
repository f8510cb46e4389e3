"""Configs of a group as brokers report them: of consumer groups (KIP-848), share groups (KIP-932) and streams groups (KIP-1071). Values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class GroupConfigKind(StrEnum):
    """The kind of group that a config applies to. A group has the configs of all kinds, because it need not exist."""

    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


@dataclass(frozen=True, slots=True)
class GroupConfigRow:
    """One config of a group. `value` applies. `own`: the group has a value of its own. `default`: the value without it, which is a setting of the brokers if
    there is one. An empty value means that none is set."""

    name: str
    kind: GroupConfigKind
    value: str
    own: bool
    default: str
    doc: str


def kind_of(name: str) -> GroupConfigKind:
    if name.startswith("streams."):
        return GroupConfigKind.STREAMS
    return GroupConfigKind.CONSUMER if name.startswith("consumer.") else GroupConfigKind.SHARE


DOCS = (
    "Session time-out of the members of this group.",
    "Interval at which the members of this group send heartbeats.",
    "Minimum time between two assignments of this group.",
    "Session time-out of the members of this share group.",
    "Interval at which the members of this share group send heartbeats.",
    "Minimum time between two assignments of this share group.",
    "Time for which a member holds an acquired record.",
    "Number of deliveries after which a record is not delivered again.",
    "Maximum number of records in flight per share partition.",
    "Where a new share partition starts: latest, earliest, or by_duration:<ISO 8601 duration>.",
    "read_committed: records of aborted transactions are not delivered. read_uncommitted: all records are delivered.",
    "Whether members may renew the lock of a record (acknowledge type renew).",
    "The topic of dead letters (KIP-1191). It must have errors.deadletterqueue.group.enable=true, and its name the prefix errors.deadletterqueue.topic.name.prefix. Empty: no dead letters.",
    "true: a dead letter has the key and the value of the record. false: only headers that name the record.",
    "true: records with the same key are delivered in order, and never to two members at the same time. false: a share group has no order, as in Kafka.",
    "Session time-out of the members of this streams group.",
    "Interval at which the members of this streams group send heartbeats.",
    "Number of standby tasks of each stateful task of this streams group.",
    "Delay before the first assignment of this streams group when it is empty.",
    "Minimum time between two assignments of this streams group.",
)
"""The descriptions that brokers of this version report, for translations: the console does not read the definitions of the brokers."""
