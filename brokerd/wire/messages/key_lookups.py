"""Look-ups by key, from the control plane to the leader of a partition: private messages with their own version, in tagged fields of Fetch.

Descriptions only. A field of a later version is a tagged field: a reader of an earlier version skips it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from brokerd.wire.schema import Struct, array, f

VERSION = 0
"""Version of the query and of its response."""
RESPONSE_ELEMENTS_MAX = 100_000
"""Maximum number of matches and their headers that a reader of a response accepts."""


class LookupStop(IntEnum):
    """The reason why a look-up ended, with its number in the response."""

    LOG_START = 0
    """All records are searched."""
    MATCHES = 1
    BYTES = 2
    TIME = 3
    REMOTE = 4
    """The remote store, which has older records, did not respond."""


@dataclass(slots=True)
class KeyLookupRequest(Struct):
    """Records with this key, or with this value of the record header `header_name` if it is not empty. Newest first, below offset `before_offset`
    (-1: the end), timestamps from `from_ms` to `to_ms` (-1: unbounded). Bounded in matches, bytes of log that are read, and milliseconds."""

    FLEXIBLE = 0

    key: bytes = f("bytes")
    header_name: str = f("string")
    before_offset: int = f("int64", default=-1)
    from_ms: int = f("int64", default=-1)
    to_ms: int = f("int64", default=-1)
    matches_max: int = f("int32", default=32)
    bytes_max: int = f("int64")
    duration_ms_max: int = f("int32")


@dataclass(slots=True)
class KeyLookupResponse(Struct):
    """`stop`: a `LookupStop`. `next_before_offset`: `before_offset` of the query that continues, -1 when the log start is reached. Sizes are in
    bytes. `key`, `value` and headers of a match are cut at a limit; `key_size` and `value_size` (-1: null) are those of the record.
    `indexed_end_offset`: below it every batch is in an index. `segments_indexed` includes segments whose index is being built."""

    FLEXIBLE = 0

    @dataclass(slots=True)
    class Header(Struct):
        name: str = f("string")
        value: bytes | None = f("bytes", nullable="0+")

    @dataclass(slots=True)
    class Match(Struct):
        offset: int = f("int64")
        timestamp: int = f("int64")
        key: bytes | None = f("bytes", nullable="0+")
        key_size: int = f("int32")
        value: bytes | None = f("bytes", nullable="0+")
        value_size: int = f("int32")
        headers: list[KeyLookupResponse.Header] = f(array("Header"))

    matches: list[KeyLookupResponse.Match] = f(array("Match"))
    stop: int = f("int8")
    next_before_offset: int = f("int64", default=-1)
    start_offset: int = f("int64", default=-1)
    end_offset: int = f("int64", default=-1)
    indexed_end_offset: int = f("int64", default=-1)
    log_bytes: int = f("int64")
    index_bytes: int = f("int64")
    segments_indexed: int = f("int32")
    segments_scanned: int = f("int32")
