"""Problems of half messages, delayed messages and dead letters, by kind of alert, with the values for the placeholders of its texts. Pure.

Does not contain: the texts, and the severity of a kind (`alert`).
"""

from __future__ import annotations

from brokerd.cluster.configs import expired_topic_name, half_topic_name
from controlplane.domain.alert_cases import SUBJECT_CHARS_MAX, about
from controlplane.domain.alert_phrases import UNWRITABLE, AlertPhrase
from controlplane.domain.alert_types import AlertCase, AlertFacts, GroupTopic
from controlplane.domain.text import coarse_count, coarse_duration
from weir_common.phrases import Phrase, number_of

MESSAGE_ALERTS_MAX = 20
"""Maximum number of topics with an alert of one kind. The metrics contain all topics."""


def half_undecided(facts: AlertFacts) -> list[AlertCase]:
    """The oldest first."""
    found = sorted(
        ((f.half_oldest_s, f) for f in facts.messages if f.half_oldest_s is not None), key=lambda x: (-x[0], x[1].topic)
    )
    return [
        AlertCase(
            f.topic,
            {
                "topic": f.topic,
                "age": coarse_duration(age),
                "messages": Phrase(AlertPhrase.UNDECIDED_MANY, {"count": coarse_count(f.half_undecided)})
                if f.half_undecided > 1
                else Phrase(AlertPhrase.UNDECIDED_ONE),
            },
        )
        for age, f in found[:MESSAGE_ALERTS_MAX]
    ]


def half_expired(facts: AlertFacts) -> list[AlertCase]:
    found = sorted(((f.half_expired, f.topic) for f in facts.messages if f.half_expired is not None), reverse=True)
    return [
        AlertCase(
            topic,
            {
                "topic": topic,
                "expired": expired_topic_name(half_topic_name(topic)),
                "has": "has" if count == 1 else "have",
                "messages": number_of(count, *AlertPhrase.HALF_MESSAGES),
            },
        )
        for count, topic in found[:MESSAGE_ALERTS_MAX]
    ]


def delayed_overdue(facts: AlertFacts) -> list[AlertCase]:
    found = sorted(
        ((f.delayed_overdue_s, f.topic) for f in facts.messages if f.delayed_overdue_s is not None), reverse=True
    )
    return [
        AlertCase(topic, {"topic": topic, "late": coarse_duration(late)}) for late, topic in found[:MESSAGE_ALERTS_MAX]
    ]


def dead_letters_growing(facts: AlertFacts) -> list[AlertCase]:
    found = sorted(
        ((f.dead_letters_grown, f.topic) for f in facts.messages if f.dead_letters_grown is not None), reverse=True
    )
    return [
        AlertCase(topic, {"topic": topic, "letters": about(count, AlertPhrase.NEW_DEAD_LETTERS)})
        for count, topic in found[:MESSAGE_ALERTS_MAX]
    ]


def dead_letters_missing(facts: AlertFacts) -> list[AlertCase]:
    return [
        AlertCase(
            f"{x.group_id}: {x.topic}"[:SUBJECT_CHARS_MAX],
            {
                "group": x.group_id,
                "topic": x.topic,
                "records": about(x.records, AlertPhrase.RECORDS),
                "reason": Phrase(UNWRITABLE[x.reason]) if x.reason in UNWRITABLE else x.reason,
            },
            parts=GroupTopic(x.group_id, x.topic),
        )
        for x in facts.letters_missing
    ]
