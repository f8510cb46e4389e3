"""Dead letters: their headers, and how many fit into a batch."""

from __future__ import annotations

from brokerd.sharing.dead_letters import BATCH_BYTES_MAX, DELIVERIES_EXCEEDED, REJECTED, dead_letters, shorten_run
from brokerd.sharing.delivery import FailedRun
from brokerd.wire.records import Record


def test_the_headers_name_the_record_and_the_cause() -> None:
    records = {7: Record(7, 1, b"k", b"v", (("trace", b"1"),))}
    first, second = dead_letters("workers", "tasks", 2, FailedRun(7, 8, 5, False), records, 99)
    assert (first.key, first.value, first.timestamp) == (b"k", b"v", 99)
    assert dict(first.headers) == {
        "__dlq.errors.topic": b"tasks",
        "__dlq.errors.partition": b"2",
        "__dlq.errors.offset": b"7",
        "__dlq.errors.group": b"workers",
        "__dlq.errors.delivery.count": b"5",
        "__dlq.errors.message": DELIVERIES_EXCEEDED.encode(),
    }
    assert (second.key, second.value, dict(second.headers)["__dlq.errors.offset"]) == (None, None, b"8")
    (only,) = dead_letters("workers", "tasks", 2, FailedRun(7, 7, 1, True), {}, 99)
    assert dict(only.headers)["__dlq.errors.message"] == REJECTED.encode()


def test_a_batch_ends_where_the_copied_records_would_be_too_large() -> None:
    half = Record(0, 1, None, bytes(BATCH_BYTES_MAX // 2))
    run = FailedRun(0, 9, 1, True)
    assert shorten_run(run, dict.fromkeys(range(10), half)) == run._replace(last=1)
    assert shorten_run(run, {0: Record(0, 1, None, bytes(BATCH_BYTES_MAX + 1))}) == run._replace(last=0), "at least one"
    assert shorten_run(run, {}) == run
