"""Headers of half messages and decisions, and the records that the broker writes."""

from __future__ import annotations

import pytest

from brokerd.delivery import half_records
from brokerd.delivery.half_messages import HalfDecision, HalfRejection
from brokerd.delivery.half_records import ID_BYTES_MAX, REJECTIONS, HalfProblem, HalfRecord, half_record
from brokerd.wire.records import Record

ID = ("x-half-id", b"7")


def record(*headers: tuple[str, bytes | None], key: bytes | None = b"k") -> Record:
    return Record(3, 1_000, key, b"v", headers)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ((ID,), HalfRecord(b"7", None)),
        ((("other", None), ID, ("x-half", b"commit")), HalfRecord(b"7", HalfDecision.COMMIT)),
        ((ID, ("x-half", b"rollback")), HalfRecord(b"7", HalfDecision.ROLLBACK)),
        ((), HalfProblem.NO_ID),
        ((("x-half-id", None),), HalfProblem.NO_ID),
        ((("x-half-id", b""),), HalfProblem.NO_ID),
        ((("x-half-id", b"x" * (ID_BYTES_MAX + 1)),), HalfProblem.NO_ID),
        ((ID, ID), HalfProblem.NO_ID),
        ((ID, ("x-half", b"Commit")), HalfProblem.NO_DECISION),
        ((ID, ("x-half", None)), HalfProblem.NO_DECISION),
        ((ID, ("x-half", b"commit"), ("x-half", b"commit")), HalfProblem.NO_DECISION),
        ((ID, ("x-half", b"expired")), HalfProblem.NO_DECISION),
    ],
)
def test_headers(headers: tuple[tuple[str, bytes | None], ...], expected: HalfRecord | HalfProblem) -> None:
    assert half_record(record(*headers)) == expected


def test_a_half_message_of_a_compacted_topic_needs_a_key_and_a_decision_does_not() -> None:
    assert half_record(record(ID, key=None), keyed=True) is HalfProblem.NO_KEY
    assert half_record(record(ID, ("x-half", b"commit"), key=None), keyed=True) == HalfRecord(b"7", HalfDecision.COMMIT)


def test_every_rejection_has_a_message() -> None:
    assert set(REJECTIONS) == set(HalfRejection)


def test_a_check_is_a_copy_with_its_number() -> None:
    found = half_records.build_check_record(record(ID, ("x-half-check", b"4")), 2, 5, 9_000)
    assert found == Record(2, 9_000, b"k", b"v", (ID, ("x-half-check", b"5")))
    assert half_records.build_delivered_record(record(ID), 1, 9_000) == Record(1, 9_000, b"k", b"v", (ID,))
