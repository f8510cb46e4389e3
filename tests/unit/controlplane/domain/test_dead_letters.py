"""Dead letters: causes, filters, the record that is sent again, headers that can be edited."""

from __future__ import annotations

import pytest

from brokerd.wire.records import Record
from controlplane.domain import dead_letters as d
from controlplane.domain.dead_letters import DeadLetterFilters, ResendTarget
from controlplane.domain.errors import Rejected
from controlplane.domain.produce import Header, NewRecord

HEADERS: tuple[Header, ...] = (
    ("trace", b"7"),
    ("x-retry-count", b"4"),
    ("x-retry-group", b"billing"),
    ("x-retry-source", b"orders-3@41"),
    ("x-retry-error", b"card: timeout"),
    ("x-delay-ms", b"5"),
    ("x-retry-resent", b"orders.dead-1@1"),
)


def test_a_cause_comes_from_the_headers() -> None:
    texts = {name: (value or b"").decode() for name, value in HEADERS}
    assert d.cause_of(texts) == d.DeadLetterCause("billing", "orders-3@41", 4, "card: timeout")
    assert d.cause_of({}) == d.DeadLetterCause()
    for count in ("-1", "x", "", "9" * 10, "\u0663", None):
        assert d.cause_of({"x-retry-count": count}).attempts is None


@pytest.mark.parametrize(
    ("filters", "matches"),
    [
        (DeadLetterFilters(), True),
        (DeadLetterFilters(group="billing"), True),
        (DeadLetterFilters(group="bill"), False),
        (DeadLetterFilters(error_contains="timeout"), True),
        (DeadLetterFilters(error_contains="address"), False),
        (DeadLetterFilters(source_begins="orders-3@"), True),
        (DeadLetterFilters(source_begins="orders-4@"), False),
        (DeadLetterFilters(group="billing", key="k"), True),
        (DeadLetterFilters(group="billing", key="other"), False),
    ],
)
def test_filters(filters: DeadLetterFilters, matches: bool) -> None:
    matcher = filters.matcher()
    assert (matcher is None or matcher(Record(1, 2, b"k", b"v", HEADERS))) is matches
    assert bool(filters) is (filters != DeadLetterFilters())
    if filters.group or filters.error_contains or filters.source_begins:
        assert matcher is not None and not matcher(Record(1, 2, b"k", b"v", ()))


def test_a_filter_has_a_limit() -> None:
    with pytest.raises(Rejected) as refused:
        DeadLetterFilters(error_contains="x" * 1_001).matcher()
    assert refused.value.field == "error_contains"


def test_a_record_that_is_sent_again_starts_with_its_first_attempt() -> None:
    letter = NewRecord(b"k", b"v", HEADERS, 3, 9)
    retry = d.resent(letter, ResendTarget.RETRY, "orders.dead-3@8", 3)
    assert retry == NewRecord(
        b"k",
        b"v",
        (
            ("trace", b"7"),
            ("x-retry-group", b"billing"),
            ("x-retry-source", b"orders-3@41"),
            ("x-retry-resent", b"orders.dead-3@8"),
        ),
        3,
        None,
    )
    assert d.has_group(retry)
    topic = d.resent(letter, ResendTarget.TOPIC, "orders.dead-3@8", None)
    assert not d.has_group(topic) and topic.partition is None and ("trace", b"7") in topic.headers


def test_headers_that_are_not_text_are_kept_by_an_edit() -> None:
    headers: list[Header] = [
        ("a", b"1"),
        ("null", None),
        ("raw", b"\xff"),
        ("lines", b"1\n2"),
        ("blank", b" x"),
        ("n:m", b"1"),
    ]
    text, kept = d.editable_headers(headers)
    assert text == "a: 1\nnull" and kept == headers[2:]
    assert d.place_text("t", 1, 2) == "t-1@2"
