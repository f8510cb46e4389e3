"""Problems of half messages, delayed messages and dead letters: only those beyond a threshold, the worst first."""

from __future__ import annotations

from controlplane.domain.alert import alerts
from controlplane.domain.alert_message_cases import (
    MESSAGE_ALERTS_MAX,
    dead_letters_growing,
    delayed_overdue,
    half_expired,
    half_undecided,
)
from controlplane.domain.alert_types import AlertFacts, GroupTopic, MissingDeadLetterFacts, TopicMessageFacts


def test_long_names_with_the_same_beginning_have_one_alert() -> None:
    """The database has room for 300 characters, and two open alerts with the same subject would fail the evaluation of all alerts."""
    letters = tuple(MissingDeadLetterFacts("g" * 255, f"{'t' * 100}-{n}", 5, "topic-missing") for n in range(2))
    found = alerts(AlertFacts(letters_missing=letters))
    assert [(len(a.subject), a.parts) for a in found] == [(300, GroupTopic("g" * 255, f"{'t' * 100}-0"))]


def test_a_topic_without_a_metric_beyond_its_threshold_has_no_case() -> None:
    facts = AlertFacts(messages=(TopicMessageFacts("orders", half_undecided=9),))
    assert [f(facts) for f in (half_undecided, half_expired, delayed_overdue, dead_letters_growing)] == [[], [], [], []]


def test_the_topics_with_the_oldest_messages_have_the_cases() -> None:
    topics = tuple(
        TopicMessageFacts(f"t{n}", half_oldest_s=60 * n, half_expired=n, delayed_overdue_s=60 * n, dead_letters_grown=n)
        for n in range(1, MESSAGE_ALERTS_MAX + 2)
    )
    worst_first = [f"t{n}" for n in range(MESSAGE_ALERTS_MAX + 1, 1, -1)]
    for cases in (half_undecided, half_expired, delayed_overdue, dead_letters_growing):
        assert [c.subject for c in cases(AlertFacts(messages=topics))] == worst_first


def test_one_dead_letter_is_singular() -> None:
    letters = tuple(MissingDeadLetterFacts("workers", f"t{n}", n, "topic-missing") for n in (1, 2))
    assert [
        ("1 record of" in a.text, "2 records of" in a.text) for a in alerts(AlertFacts(letters_missing=letters))
    ] == [
        (True, False),
        (False, True),
    ]
    topics = tuple(TopicMessageFacts(f"t{n}", dead_letters_grown=n) for n in (1, 2))
    assert [a.text for a in alerts(AlertFacts(messages=topics))] == [
        "Topic t2 has about 2 new dead letters in ten minutes.",
        "Topic t1 has about 1 new dead letter in ten minutes.",
    ]
