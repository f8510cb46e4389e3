"""Configs of a group as brokers report them: of consumer groups (KIP-848) and of share groups (KIP-932). Values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class GroupConfigKind(StrEnum):
    """The kind of group that a config applies to. A group has the configs of both kinds, because it need not exist."""

    CONSUMER = "consumer"
    SHARE = "share"


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
    return GroupConfigKind.CONSUMER if name.startswith("consumer.") else GroupConfigKind.SHARE
