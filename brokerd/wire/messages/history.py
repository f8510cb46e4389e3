"""History reads between brokers of Weir: private messages with their own versions, in tagged fields of Fetch. Descriptions only.

A field of a later version is a tagged field: a reader of an earlier version skips it. A change that a reader must know is a new version.
"""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.wire.schema import Struct, f


@dataclass(slots=True)
class HistoryReadRequestData(Struct):
    """`operation`: a `HistoryOperation`. `target`: an offset, a timestamp, a leader epoch or a size in bytes. `end_offset`: a read ends below
    it. The partition, the bytes and the last epoch of a read are those of the Fetch request."""

    FLEXIBLE = 0

    handover_offset: int = f("int64")
    operation: int = f("int8")
    target: int = f("int64")
    end_offset: int = f("int64", default=-1)
    log_start_floor: int = f("int64")


@dataclass(slots=True)
class HistoryReadResponseData(Struct):
    """The position that was found. Records are in the Fetch response."""

    FLEXIBLE = 0

    offset: int = f("int64")
    timestamp: int = f("int64", default=-1)
    leader_epoch: int = f("int32", default=-1)
