"""Undecided half messages, from the control plane to the leader of a front partition: private messages with their own version, in tagged fields of Fetch.

Descriptions only. A field of a later version is a tagged field: a reader of an earlier version skips it.
"""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.wire.schema import Struct, array, f

VERSION = 0
"""Version of the query and of its response."""


@dataclass(slots=True)
class HalfMessagesRequest(Struct):
    """The oldest undecided half messages from offset `from_offset` on, at most `messages_max`."""

    FLEXIBLE = 0

    from_offset: int = f("int64", default=0)
    messages_max: int = f("int32", default=100)


@dataclass(slots=True)
class HalfMessagesResponse(Struct):
    """`undecided`: their number. `delivered`, `expired`, `checks_sent`: since this broker leads. `blocked`: the error code of the last delivery that
    was not accepted, 0 if the last one was. Times are in Unix milliseconds."""

    FLEXIBLE = 0

    @dataclass(slots=True)
    class Message(Struct):
        half_id: bytes = f("bytes")
        offset: int = f("int64")
        appended_ms: int = f("int64")
        checks: int = f("int32")
        expiring: bool = f("bool")

    messages: list[HalfMessagesResponse.Message] = f(array("Message"))
    undecided: int = f("int32")
    delivered: int = f("int64")
    expired: int = f("int64")
    checks_sent: int = f("int64")
    blocked: int = f("int16", default=0)
