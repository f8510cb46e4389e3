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
    with pytest.raises(Rejected) as rejection:
        DeadLetterFilters(error_contains="x" * 1_001).matcher()
    assert rejection.value.field == "error_contains"


def test_a_record_that_is_sent_again_starts_with_its_first_attempt() -> None:
    letter = NewRecord(b"k", b"v", HEADERS, 3, 9)
    retry = d.build_resent_record(letter, ResendTarget.RETRY, "orders.dead-3@8", 3)
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
    topic = d.build_resent_record(letter, ResendTarget.TOPIC, "orders.dead-3@8", None)
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


SHARE: tuple[Header, ...] = (
    ("__dlq.errors.topic", b"orders"),
    ("__dlq.errors.partition", b"3"),
    ("__dlq.errors.offset", b"41"),
    ("__dlq.errors.group", b"workers"),
    ("__dlq.errors.delivery.count", b"5"),
    ("__dlq.errors.message", b"Offset rejected by client."),
)


def test_a_dead_letter_of_a_share_group_names_its_record() -> None:
    texts = {name: (value or b"").decode() for name, value in SHARE}
    kind = d.DeadLetterKind.SHARE_GROUP
    assert d.cause_of(texts, kind) == d.DeadLetterCause("workers", "orders-3@41", 5, "Offset rejected by client.")
    assert d.cause_of({}, kind) == d.DeadLetterCause()
    assert d.failed_record(SHARE) == d.FailedRecord("orders", 3, 41)
    for at, value in ((0, b""), (0, b"\xff"), (1, b"-1"), (2, b"9" * 19), (2, None), (1, b"\xd9\xa3")):
        changed = [(n, value if i == at else v) for i, (n, v) in enumerate(SHARE)]
        assert d.failed_record(changed) is None
    for filters, matches in (
        (DeadLetterFilters(group="workers", error_contains="rejected", source_begins="orders-3@41"), True),
        (DeadLetterFilters(group="work"), False),
        (DeadLetterFilters(error_contains="threshold"), False),
        (DeadLetterFilters(source_begins="orders-4"), False),
    ):
        matcher = filters.matcher()
        assert matcher is not None and matcher(Record(1, 2, None, None, SHARE)) is matches


def test_the_original_is_sent_unless_it_is_another_record() -> None:
    original = NewRecord(b"k", b"v", (("trace", b"7"),), None, 5)
    bare, copy = NewRecord(headers=SHARE), NewRecord(b"k", b"v", SHARE)
    assert d.restore_failed_record(bare, original) == d.restore_failed_record(copy, original) == original
    assert d.restore_failed_record(bare, None) is None
    assert (
        d.restore_failed_record(copy, None)
        == d.restore_failed_record(copy, NewRecord(b"k", b"other"))
        == NewRecord(b"k", b"v")
    )
    sent = d.build_resent_record(NewRecord(b"k", b"v", SHARE), ResendTarget.TOPIC, "dlq.x-0@8", 3)
    assert sent.headers == (("x-retry-resent", b"dlq.x-0@8"),)


def test_a_record_for_a_retry_topic_names_its_share_group_and_keeps_its_first_place() -> None:
    needed = d.retry_headers(SHARE)
    assert needed == (("x-retry-group", b"workers"), ("x-retry-source", b"orders-3@41"))
    assert d.with_headers(NewRecord(headers=(("a", b"1"),)), needed).headers == (("a", b"1"), *needed)
    before = NewRecord(headers=(("x-retry-source", b"orders-3@7"), ("x-retry-group", b"mail")))
    assert d.with_headers(before, needed).headers == (("x-retry-source", b"orders-3@7"), needed[0])
    assert d.with_headers(before, ()) == before
    assert d.retry_headers(SHARE[1:]) == d.retry_headers([h for h in SHARE if h[0] != "__dlq.errors.group"]) == ()
