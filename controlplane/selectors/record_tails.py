"""Live tails of a topic: polls of the partition leaders, from the end of each partition.

Invariant: a poll is limited in time and in fetched bytes; a tail that is behind continues at the end. Nothing is committed, and no broker keeps state of
a tail. Does not contain: which records are shown (`domain.record_tail`), permissions and audit (`services.record_tails`).
"""

from __future__ import annotations

import time
from dataclasses import replace

from controlplane.clients.connection import NoResponse
from controlplane.clients.record_expressions import ExpressionProcess
from controlplane.clients.record_reader import CALL_SECONDS, RecordReaderClient
from controlplane.domain.masking import RecordRenderer
from controlplane.domain.record_expression import variables_of
from controlplane.domain.record_filter import Matcher
from controlplane.domain.record_query import RecordQuery
from controlplane.domain.record_scan import PartitionProblem
from controlplane.domain.record_tail import RecordTail
from controlplane.selectors.messages import MessageRow, masked_matcher, message_row, selected_partitions

POLL_SECONDS, POLL_BYTES = 0.4, 4 * 1024 * 1024
"""Limits of one poll: time and fetched bytes."""


class TailReader:
    """Not thread-safe. Raises Rejected for an invalid query. `plain`: renders with automatic formats, for the filters of a reader with masking rules."""

    def __init__(self, query: RecordQuery, plain: RecordRenderer) -> None:
        self._query = query
        partitions, _ = selected_partitions(replace(query, all_partitions=True))
        self._plain = plain
        self._expression: ExpressionProcess | None = None
        matcher = self._matcher(plain)
        if query.filters.expression:
            self._expression = ExpressionProcess(query.filters.expression, lambda p, r: variables_of(p, r, self._plain))
        self.tail = RecordTail(partitions, matcher, self._expression)
        self._partitions = partitions
        self._reader = RecordReaderClient(query.topic, CALL_SECONDS)
        self._leaders_loaded = False
        self._took_at = time.monotonic()

    def mask(self, plain: RecordRenderer) -> None:
        """Apply the current masking rules."""
        self._plain = plain
        self.tail.matcher = self._matcher(plain)

    def poll(self) -> None:
        """Fetch the records since the last poll."""
        tail, reader, began = self.tail, self._reader, time.monotonic()
        reader.renew(CALL_SECONDS)
        try:
            if not self._leaders_loaded or tail.problems:
                reader.load_leaders()
                self._leaders_loaded = True
            if unplaced := tail.partitions_without_offset():
                logs, problems = reader.log_ranges(unplaced)
                tail.place({p: end for p, (_, end) in logs.items()}, problems)
        except NoResponse:
            tail.problems |= dict.fromkeys(self._partitions, PartitionProblem.LEADER_UNREACHABLE)
            return
        fetched, ranges = 0, tail.ranges()
        while ranges:
            chunks = reader.fetch(ranges)
            tail.add(chunks)
            fetched += sum(chunk.size for chunk in chunks.values())
            if fetched >= POLL_BYTES or time.monotonic() - began >= POLL_SECONDS:
                break
            ranges = tail.behind()
        tail.skip_behind()

    def take(self, renderer: RecordRenderer) -> list[MessageRow]:
        """The records to show, newest first."""
        now = time.monotonic()
        found, self._took_at = self.tail.take(now - self._took_at), now
        return [message_row(partition, record, renderer) for partition, record in found]

    def close(self) -> None:
        self._reader.close()
        if self._expression is not None:
            self._expression.close()

    def _matcher(self, plain: RecordRenderer) -> Matcher | None:
        matcher = self._query.filters.matcher()
        return masked_matcher(matcher, plain) if matcher is not None and plain.masks else matcher
