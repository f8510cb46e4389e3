"""Pending delayed messages, from the control plane to the leader of a front partition: private messages with their own version, in tagged fields of Fetch.

Descriptions only. A field of a later version is a tagged field: a reader of an earlier version skips it.
"""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.wire.schema import Struct, array, f

VERSION = 0
"""Version of the query and of its response."""


@dataclass(slots=True)
class DelayedMessagesRequest(Struct):
    """`bounds_ms`: ascending bounds of the histogram. `records_max`: records to look up, 0 for none. They are looked up by `key` (null: each), with
    delivery times from `from_ms` to below `to_ms` (-1: unbounded), after the place of `after_ms` and `after_offset` (-1: from the first one on)."""

    FLEXIBLE = 0

    bounds_ms: list[int] = f(array("int64"))
    records_max: int = f("int32", default=0)
    key: bytes | None = f("bytes", nullable="0+", default=None)
    from_ms: int = f("int64", default=-1)
    to_ms: int = f("int64", default=-1)
    after_ms: int = f("int64", default=-1)
    after_offset: int = f("int64", default=-1)
    duration_ms_max: int = f("int32", default=0)


@dataclass(slots=True)
class DelayedMessagesResponse(Struct):
    """`pending`: the number of records that are not due yet; cancelled ones count until their time. `earliest_ms`: -1 without one. `counts`: pending
    records before the first bound, between each two, from the last on. `delivered`, `cancelled`, `discarded`: since this broker leads. `blocked`: the
    error code of the last delivery that was not accepted, 0 if the last one was. `next_ms`, `next_offset`: the place that continues the look-up,
    -1 at its end. `due`: records whose time has come and that are not delivered yet. `last_due_ms`: the delivery time of the first record in the batch
    that was sent last, `last_sent_ms`: when it was sent, -1 before the first one. Times are in Unix milliseconds."""

    FLEXIBLE = 0

    @dataclass(slots=True)
    class Pending(Struct):
        offset: int = f("int64")
        deliver_at_ms: int = f("int64")
        cancelled: bool = f("bool")

    pending: int = f("int64")
    earliest_ms: int = f("int64", default=-1)
    counts: list[int] = f(array("int64"))
    delivered: int = f("int64")
    cancelled: int = f("int64")
    discarded: int = f("int64")
    blocked: int = f("int16", default=0)
    records: list[DelayedMessagesResponse.Pending] = f(array("Pending"))
    next_ms: int = f("int64", default=-1)
    next_offset: int = f("int64", default=-1)
    due: int = f("int64", tag=0, tagged="0+")
    last_due_ms: int = f("int64", default=-1, tag=1, tagged="0+")
    last_sent_ms: int = f("int64", default=-1, tag=2, tagged="0+")
