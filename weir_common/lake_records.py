"""A look-up by key in the tables of a topic in the lake, and its result, as JSON between the control plane and the process that reads. Values only."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import TypedDict

from weir_common.lake_queries import QueryError

RECORDS_SECONDS_MAX = 15.0
"""Time limit of the process. It is killed afterwards, because a page waits for it."""

RECORDS_MEMORY_MB = 256
"""Memory limit of DuckDB. Nothing is spilled to a disk."""

RECORDS_FILES_MAX = 5_000
"""Maximum number of data files of one look-up: those whose bounds may contain the key."""

FIELD_BYTES_MAX = 64 * 1024
"""Maximum number of bytes of a key and of a value in the result, as in look-ups of brokers."""


@dataclass(frozen=True, slots=True)
class LakeLookup:
    """`header`: search for `key` as a value of this record header; empty: as the key. `before`: {partition: offset}; only records of these partitions
    below the offset. Times in milliseconds, both inclusive; None: not limited. `lake_folder`: of the default lake."""

    topic: str
    key: bytes
    header: str
    before: dict[int, int]
    from_ms: int | None
    to_ms: int | None
    rows_max: int
    lake_folder: str
    memory_mb: int = RECORDS_MEMORY_MB

    def text(self) -> str:
        return json.dumps(
            {
                "topic": self.topic,
                "key": _text(self.key),
                "header": self.header,
                "before": list(self.before.items()),
                "from_ms": self.from_ms,
                "to_ms": self.to_ms,
                "rows_max": self.rows_max,
                "lake_folder": self.lake_folder,
                "memory_mb": self.memory_mb,
            }
        )

    @staticmethod
    def parse(text: str) -> LakeLookup:
        values = json.loads(text)
        before = {int(partition): int(offset) for partition, offset in values["before"]}
        return LakeLookup(**{**values, "key": b64decode(values["key"]), "before": before})


class RecordJson(TypedDict):
    """A `LakeRecord` as JSON. Bytes are in base64."""

    partition: int
    offset: int
    timestamp_ms: int
    key: str | None
    key_size: int
    value: str | None
    value_size: int
    headers: list[tuple[str, str | None]]


@dataclass(frozen=True, slots=True)
class LakeRecord:
    """`key_size`, `value_size`: bytes of the whole fields, of which `key` and `value` may be the first FIELD_BYTES_MAX; -1 for null."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    key_size: int
    value: bytes | None
    value_size: int
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def values(self) -> RecordJson:
        return {
            "partition": self.partition,
            "offset": self.offset,
            "timestamp_ms": self.timestamp_ms,
            "key": _text(self.key),
            "key_size": self.key_size,
            "value": _text(self.value),
            "value_size": self.value_size,
            "headers": [(name, _text(value)) for name, value in self.headers],
        }

    @staticmethod
    def of_values(values: RecordJson) -> LakeRecord:
        return LakeRecord(
            partition=values["partition"],
            offset=values["offset"],
            timestamp_ms=values["timestamp_ms"],
            key=_bytes(values["key"]),
            key_size=values["key_size"],
            value=_bytes(values["value"]),
            value_size=values["value_size"],
            headers=tuple((name, _bytes(text)) for name, text in values["headers"]),
        )


@dataclass(frozen=True, slots=True)
class LakeRecords:
    """The newest records, at most `rows_max`: a record ranks as the newest one of its partition up to its offset, so that those of one partition have descending
    offsets. `truncated`: there are more. `files`: data files that were read. `error`: None for a result; `detail` explains it."""

    records: list[LakeRecord] = field(default_factory=list)
    truncated: bool = False
    files: int = 0
    error: QueryError | None = None
    detail: str = ""

    def text(self) -> str:
        return json.dumps(
            {
                "records": [r.values() for r in self.records],
                "truncated": self.truncated,
                "files": self.files,
                "error": self.error,
                "detail": self.detail,
            }
        )

    @staticmethod
    def parse(text: str) -> LakeRecords:
        values = json.loads(text)
        error = values["error"]
        return LakeRecords(
            [LakeRecord.of_values(r) for r in values["records"]],
            values["truncated"],
            values["files"],
            None if error is None else QueryError(error),
            values["detail"],
        )


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
