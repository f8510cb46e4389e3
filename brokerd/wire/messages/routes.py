"""Appends of routes between brokers of Weir: private messages in tagged fields of Produce. Descriptions only."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from brokerd.wire.schema import Struct, f


@dataclass(slots=True)
class RoutedAppendRequestData(Struct):
    """The batch is appended if `expected` is the source offset of the last record of this route in the target partition (-1: none, -2: the sender
    does not know). The leader of the source partition in `source_epoch` sends it."""

    FLEXIBLE = 0

    expected: int = f("int64")
    source_topic_id: UUID = f("uuid")
    source_partition: int = f("int32")
    source_epoch: int = f("int32")


@dataclass(slots=True)
class RoutedAppendResponseData(Struct):
    """`last`: the source offset of the last record of this route in the target partition, replicated. -1: none."""

    FLEXIBLE = 0

    last: int = f("int64", default=-1)
