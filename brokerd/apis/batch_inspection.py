"""Inspection of a producer's batches: every record is validated. A batch is recompressed if the topic has its own compression.type.

Invariants: a batch is inspected before its first byte is written. Long inspections run in steps, and the partition may change between the steps. The result is
valid only for the topic configs with which it was computed. Does not contain: offsets, acknowledgements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brokerd.cluster.configs import TopicConfig
from brokerd.storage.batch_validation import Rejection, rules_of, validate_batch
from brokerd.wire import records
from brokerd.wire.record_walk import LONG_MAX, LONG_MIN
from brokerd.wire.record_walks import COMPILED, batch_is_valid, plain_records
from brokerd.wire.records import BatchHeader, UnpackBudget
from brokerd.wire.steps import Steps, run_now

SHORT_RECORDS = 16 * 1_024 if COMPILED else 1_024
"""Number of uncompressed records per request that are inspected without interruption, which takes at most 1 ms. Compressed data can decompress to any size."""
Data = memoryview | bytearray
Headers = list[tuple[int, BatchHeader]]


@dataclass(slots=True)
class Inspected:
    """The bytes to write for one partition, or an error."""

    config: TopicConfig
    data: Data
    headers: Headers
    rejected: Rejection | None = None


def records_of(data: Data) -> int:
    """The number of records in the batches of one partition, read from the batch headers. If the batches must be inspected in steps, the result
    is greater than SHORT_RECORDS."""
    plain: int = plain_records(data)
    if plain >= 0:  # a single batch, as from every client
        return plain
    headers = [h for _, h in records.batches(data)]
    if any(h.compression for h in headers):
        return SHORT_RECORDS + 1
    return sum(max(0, h.record_count) for h in headers)


def inspect(data: Data, headers: Headers, config: TopicConfig, budget: UnpackBudget, wall_ms: int) -> Steps[Inspected]:
    """Validate the batches of one partition and recompress them if the topic requires it. `headers` is the result of `records.check(data)`. A
    wrong maximum timestamp in a batch header is corrected in `data`."""
    found = Inspected(config, data, headers)
    rules = rules_of(config, wall_ms)
    for i, (pos, header) in enumerate(headers):
        verdict = yield from validate_batch(data, pos, header, rules, budget)
        if isinstance(verdict, Rejection):
            found.rejected = verdict
            return found
        if verdict != header.max_timestamp:
            headers[i] = pos, records.stamp_max_timestamp(data, pos, header, verdict)
    codec = config.compression
    if codec is not None and _differs(headers, codec):
        # The recompression has a separate budget. It decompresses only data that the request's budget has already covered.
        found.data = yield from records.recompress(data, headers, codec, UnpackBudget(), config.compression_level)
        found.headers = list(records.batches(found.data))
    return found


def _differs(headers: Sequence[tuple[int, BatchHeader]], codec: int) -> bool:
    return any(header.compression != codec for _, header in headers)


Verdict = tuple[Rejection | None, Data, Headers]
"""The error, or the bytes and headers to write."""


def inspect_now(
    data: Data, headers: Headers, config: TopicConfig, wall_ms: int, budget: UnpackBudget | None = None
) -> Verdict:
    """Like `inspect`, but without interruption points. Most requests contain one uncompressed batch per partition. One call of `batch_is_valid` is enough
    for such a batch (decision 044)."""
    if not config.compression and len(headers) == 1:
        if config.bounds_timestamps:
            valid = batch_is_valid(data, *rules_of(config, wall_ms))
        else:
            valid = batch_is_valid(data, config.compacts, LONG_MIN, LONG_MAX)
        if valid:
            return None, data, headers
    found = run_now(inspect(data, headers, config, budget or UnpackBudget(), wall_ms))
    return found.rejected, found.data, found.headers


class Inspections:
    """The inspection results of one request, by the identity of the partition's bytes. All inspections of the request share one budget."""

    def __init__(self, wall_ms: int) -> None:
        self.budget, self._wall_ms = UnpackBudget(), wall_ms
        self._results: dict[int, Inspected] = {}

    def steps(self, requested: Sequence[tuple[Data, TopicConfig]]) -> Steps[None]:
        for data, config in requested:
            try:
                headers = records.check(data)
            except (records.CorruptBatch, records.InvalidBatch):
                continue  # rejected before it is written
            self._results[id(data)] = yield from inspect(data, headers, config, self.budget, self._wall_ms)
            yield None

    def verdict_of(self, data: Data, headers: Headers, config: TopicConfig) -> Verdict:
        """The inspection result of `data`. Without an earlier result for the same topic settings, the batches are inspected now."""
        found = self._results.get(id(data))
        if found is not None and found.config is config:
            return found.rejected, found.data, found.headers
        return inspect_now(data, headers, config, self._wall_ms, self.budget)
