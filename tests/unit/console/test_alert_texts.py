"""The text of an alert has the same names and values in each language."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from django.utils import translation

from brokerd.cluster.rejection_reasons import RejectionReason
from brokerd.sharing.dead_letters import UnwritableReason
from console import durations, vocabulary
from controlplane.domain.alert import RULES, alerts, stored_texts
from controlplane.domain.alert_types import (
    AlertFacts,
    AlertMetric,
    AnomalyFacts,
    ComputedAlert,
    ConnectFacts,
    FailedLoginFacts,
    GroupFacts,
    MissingDeadLetterFacts,
    RejectedClientFacts,
    ShareGroupFacts,
    TopicMessageFacts,
)
from controlplane.domain.connect import ConnectorFailure
from controlplane.domain.history import object_of
from controlplane.domain.lag import LagStatus
from controlplane.domain.share_lag import ShareStall
from controlplane.selectors.anomalies import AnomalyRow
from controlplane.services.alert_facts import anomaly_text
from tests.unit.console.test_catalogues import GRAMMAR
from tests.unit.controlplane.domain.test_alert import ILL
from weir_common.durations import Duration
from weir_common.phrases import Phrase, Value, to_json

VERBS = {"has", "have", "is", "are", "was", "were"}


def anomaly(state: str, baseline: str, subject: str = "cluster") -> AnomalyFacts:
    now = datetime(2026, 11, 27, tzinfo=UTC)
    row = AnomalyRow(
        subject, "lag_records", "Lag, records", "", state, 5_000.0, 40.0, 9.0, baseline, 12, now, now, True
    )
    return AnomalyFacts(AlertMetric("lag_records", *object_of(subject)), anomaly_text(row))


MANY = tuple(GroupFacts(f"group-{n}", status) for n in range(30) for status in (LagStatus.STOPPED, LagStatus.DATA_LOST))
REJECTED = RejectedClientFacts("User:etl", RejectionReason.UNAUTHORIZED, 40, "10.0.0.9")
LOGINS = (
    FailedLoginFacts("etl", "PLAIN", "wrong_password"),
    FailedLoginFacts("", "", "malformed"),
    *(FailedLoginFacts(f"app-{n}", "SCRAM-SHA-256", "unknown_user") for n in range(3)),
)
EXAMPLES = (
    replace(ILL, archives=((3, "no space left"),)),
    AlertFacts(
        zookeeper=False,
        worker_silent_s=90.0,
        spark_worker_silent_s=150.0,
        spark_jobs_waiting=(4, ("nightly", 3)),
        groups=MANY,
        under_replicated=(9, ("orders-1", "orders-2")),
    ),
    AlertFacts(
        share_groups=tuple(ShareGroupFacts(f"workers-{n}", s, "orders-1", 4, 90_000) for n, s in enumerate(ShareStall))
    ),
    AlertFacts(share_groups=(ShareGroupFacts("workers", ShareStall.NO_MEMBERS, "orders-1"),), share_group_count=99),
    AlertFacts(hanging=(2, ("orders-1", "orders-2")), hanging_groups=3),
    AlertFacts(groups=tuple(replace(g, retention_in_s=600.0, retention_partition="orders-1") for g in MANY)),
    AlertFacts(anomalies=tuple(anomaly(s, b) for s in ("high", "low") for b in ("days", "hours"))),
    AlertFacts(
        messages=(
            TopicMessageFacts("orders", 1, 400.0, 1, 90.0, 500),
            TopicMessageFacts("payments", 7, 4_000.0, 12, None, None),
        ),
        letters_missing=tuple(
            MissingDeadLetterFacts(f"workers-{n}", "orders", 20, why) for n, why in enumerate(UnwritableReason)
        ),
        rejected=(
            REJECTED,
            replace(REJECTED, reason=RejectionReason.AUTHENTICATION_FAILED, logins=LOGINS),
            replace(REJECTED, client_id="app", operation="write", resource_type="topic", resource_name="orders"),
        ),
        connect=(
            ConnectFacts(
                "blue", (ConnectorFailure("sink", True, 8, [1, 2, 3, 4]), ConnectorFailure("two", True, 1, []))
            ),
            ConnectFacts("red", (ConnectorFailure("source", False, 1, [0]),), 99.0, "connection refused"),
        ),
    ),
)


def leaves(value: Value) -> Iterator[str | Duration]:
    """The names, numbers and durations in a value."""
    if isinstance(value, str | Duration):
        yield value
    elif isinstance(value, Phrase):
        for part in value.values.values():
            yield from leaves(part)
    else:
        for part in value:
            yield from leaves(part)


def facts_in(rule: str, alert: ComputedAlert) -> list[str | Duration]:
    return [
        leaf
        for name, value in alert.words.items()
        if f"{{{name}}}" in rule
        for leaf in leaves(value)
        if str(leaf).strip() and f"{{{name}}}" not in GRAMMAR
    ]


@pytest.mark.parametrize("facts", EXAMPLES)
def test_a_chinese_alert_has_the_names_and_values_of_the_english_one(facts: AlertFacts) -> None:
    found = alerts(facts)
    assert found
    for a in found:
        rule = next(r for r in RULES if r.kind == a.kind)
        stored = json.loads(json.dumps({name: to_json(value) for name, value in a.words.items()}))
        text, do = stored_texts(a.kind, a.text, a.do, stored)
        assert (text, do) == (a.text, a.do)
        assert vocabulary.alert_text(a.kind, a.subject, text) == a.text and vocabulary.alert_do(a.kind, do) == a.do
        with translation.override("zh-hans"):
            shown = vocabulary.alert_text(a.kind, a.subject, text), vocabulary.alert_do(a.kind, do)
        for template, english, chinese in ((rule.text, a.text, shown[0]), (rule.do, a.do, shown[1])):
            names = facts_in(template, a)
            with translation.override("zh-hans"):
                translated = {n: durations.localized(n) if isinstance(n, Duration) else n.strip() for n in names}
            missing = [n for n in names if str(n).strip() in english and translated[n] not in chinese]
            assert missing == [], (english, chinese)
            assert chinese != english and not VERBS & set(chinese.split()), chinese
            assert "{" not in chinese, chinese


@pytest.mark.parametrize(
    ("subject", "english", "chinese"),
    [
        ("cluster", "Lag, records of cluster:", "集群"),
        ("topic:a of b", "Lag, records of topic a of b:", "Topic a of b"),
        ("group:billing", "Lag, records of group billing:", "消费组 billing"),
        ("share_group:share_group a", "Lag, records of share group share_group a:", "共享组 share_group a"),
        ("broker:3", "Lag, records of broker 3:", "Broker 3"),
    ],
)
def test_the_object_of_an_anomaly_is_in_the_language_of_its_text(subject: str, english: str, chinese: str) -> None:
    """The kind of the object was a part of its name: "group billing" in a Chinese sentence."""
    (a,) = alerts(AlertFacts(anomalies=(anomaly("high", "days", subject),)))
    assert a.text.startswith(english)
    stored = {name: to_json(value) for name, value in a.words.items()}
    with translation.override("zh-hans"):
        assert chinese in vocabulary.alert_text(a.kind, a.subject, stored_texts(a.kind, a.text, a.do, stored)[0])


def test_the_examples_have_every_kind_of_alert() -> None:
    assert {a.kind for facts in EXAMPLES for a in alerts(facts)} == {r.kind for r in RULES}


def test_an_alert_without_stored_words_has_its_short_text_in_chinese() -> None:
    text, do = stored_texts("broker_down", "Broker 3 is down: 20 replicas offline.", "Start the broker.", {})
    with translation.override("zh-hans"):
        assert vocabulary.alert_text("broker_down", "3", text) == "Broker 3 已宕机。"
        assert vocabulary.alert_do("broker_down", do) == "Start the broker."
    old, _ = stored_texts("broker_down", "Broker 3 is down: 20 replicas offline.", "Start.", {"broker": "3"})
    with translation.override("zh-hans"):
        assert vocabulary.alert_text("broker_down", "3", old) == "Broker 3 已宕机。", "values of an earlier text"
