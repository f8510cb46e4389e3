"""Records of one partition as Arrow batches with the columns of `schemas`.

Invariant: the order is kept, and no record is dropped or added. Columns are built for many records together, because work per record in Python limits the
source. `Message.value()` copies the bytes at each call, so it is called once per record.
Does not contain: the consumer, offsets to read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message

from pipeline import schemas

LOG_APPEND_TIME = 2
"""librdkafka's number for a timestamp that the log has set."""


class RecordColumns:
    """The columns of one Arrow batch. `size`: bytes of keys and values."""

    __slots__ = ("_headers", "_keys", "_offsets", "_stamps", "_values", "size")

    def __init__(self, *, headers: bool) -> None:
        self._keys: list[Any] = []
        self._values: list[Any] = []
        self._offsets: list[int | None] = []
        self._stamps: list[tuple[int, int]] = []
        self._headers: list[list[dict[str, Any]] | None] | None = [] if headers else None
        self.size = 0

    def __len__(self) -> int:
        return len(self._offsets)

    def extend(self, records: Sequence[Message]) -> int:
        """Add records; returns the bytes of their keys and values."""
        keys, values = [r.key() for r in records], [r.value() for r in records]
        self._keys += keys
        self._values += values
        self._offsets += [r.offset() for r in records]
        self._stamps += [r.timestamp() for r in records]
        if self._headers is not None:
            found = [r.headers() for r in records]
            self._headers += [[{"key": k, "value": v} for k, v in each] if each else None for each in found]
        added = sum(map(len, filter(None, keys))) + sum(map(len, filter(None, values)))
        self.size += added
        return added

    def arrow(self, topic: str, partition: int) -> pa.RecordBatch:
        count = len(self)
        columns = [
            pa.array(self._keys, type=pa.binary()),
            pa.array(self._values, type=pa.binary()),
            pa.repeat(pa.scalar(topic, type=pa.string()), count),
            pa.repeat(pa.scalar(partition, type=pa.int32()), count),
            pa.array(self._offsets, type=pa.int64()),
            pc.multiply(pa.array([at for _, at in self._stamps], type=pa.int64()), 1_000).cast(
                pa.timestamp("us", tz="UTC")
            ),
            pa.array([1 if kind == LOG_APPEND_TIME else 0 for kind, _ in self._stamps], type=pa.int32()),
        ]
        if self._headers is None:
            return pa.RecordBatch.from_arrays(columns, schema=schemas.ARROW_RECORD)
        columns.append(pa.array(self._headers, type=schemas.ARROW_HEADERS.type))
        return pa.RecordBatch.from_arrays(columns, schema=schemas.ARROW_RECORD_WITH_HEADERS)
