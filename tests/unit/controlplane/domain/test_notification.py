"""Which channel sends which event of an incident, and the delays between attempts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from controlplane.domain.alert_types import AlertKind, Severity
from controlplane.domain.notification import (
    ATTEMPTS_MAX,
    RETRY_MAX_S,
    SETTLE_S,
    ChannelKind,
    ChannelRule,
    DeliveryError,
    DeliveryEvent,
    DeliveryState,
    IncidentState,
    SendResult,
    next_event,
    retry_delay_s,
    state_after,
)

RULE = ChannelRule(ChannelKind.WEBHOOK, Severity.DEGRADED)
PAGER = ChannelRule(ChannelKind.PAGERDUTY, Severity.DEGRADED)
SENT = {DeliveryEvent.TRIGGERED: Severity.DEGRADED}
DEGRADED, AT_RISK = Severity.DEGRADED, Severity.AT_RISK


def incident(severity: Severity = DEGRADED, **given: Any) -> IncidentState:
    alerts = {AlertKind.BROKER_DOWN: severity, AlertKind.GROUP_STALLED: DEGRADED}
    return IncidentState(**{"severity": severity, "alerts": alerts, "age_s": SETTLE_S, **given})


@pytest.mark.parametrize("given", [{"age_s": SETTLE_S - 0.1}, {"acknowledged": True}, {"silenced": True}])
def test_an_incident_is_sent_when_it_is_old_enough_and_not_acknowledged_or_silenced(given: dict[str, Any]) -> None:
    assert next_event(RULE, incident(), {}) is DeliveryEvent.TRIGGERED
    assert next_event(RULE, incident(**given), {}) is None


def test_an_incident_is_sent_once_and_again_only_when_its_severity_becomes_at_risk() -> None:
    assert next_event(RULE, incident(), SENT) is None
    assert next_event(RULE, incident(AT_RISK), SENT) is DeliveryEvent.ESCALATED
    assert next_event(RULE, incident(AT_RISK, silenced=True), SENT) is None
    assert next_event(RULE, incident(AT_RISK, acknowledged=True), SENT) is None
    assert next_event(RULE, incident(AT_RISK), SENT | {DeliveryEvent.ESCALATED: AT_RISK}) is None
    assert next_event(RULE, incident(AT_RISK), {DeliveryEvent.TRIGGERED: AT_RISK}) is None


def test_an_acknowledgement_is_sent_only_to_pagerduty_and_only_for_a_sent_incident() -> None:
    known = incident(acknowledged=True)
    assert next_event(PAGER, known, SENT) is DeliveryEvent.ACKNOWLEDGED
    assert next_event(PAGER, known, SENT | {DeliveryEvent.ACKNOWLEDGED: DEGRADED}) is None
    assert next_event(PAGER, known, {}) is None
    assert next_event(RULE, known, SENT) is None


@pytest.mark.parametrize(
    ("severity_min", "kinds", "covered"),
    [
        (DEGRADED, set(), True),
        (AT_RISK, set(), True),
        (DEGRADED, {AlertKind.GROUP_STALLED}, True),
        (AT_RISK, {AlertKind.GROUP_STALLED}, False),
        (AT_RISK, {AlertKind.BROKER_DOWN}, True),
        (DEGRADED, {AlertKind.DRIFT}, False),
    ],
)
def test_kind_and_severity_must_be_of_the_same_alert(
    severity_min: Severity, kinds: set[AlertKind], covered: bool
) -> None:
    rule = ChannelRule(ChannelKind.SLACK, severity_min, frozenset(kinds))
    assert rule.covers(incident(AT_RISK).alerts) is covered
    assert (next_event(rule, incident(AT_RISK), {}) is not None) is covered


@pytest.mark.parametrize(
    ("result", "permanent"),
    [
        (SendResult(DeliveryError.STATUS, 404), True),
        (SendResult(DeliveryError.STATUS, 400), True),
        (SendResult(DeliveryError.STATUS, 408), False),
        (SendResult(DeliveryError.STATUS, 429), False),
        (SendResult(DeliveryError.STATUS, 500), False),
        (SendResult(DeliveryError.SMTP, 550), True),
        (SendResult(DeliveryError.SMTP, 451), False),
        (SendResult(DeliveryError.SMTP), False),
        (SendResult(DeliveryError.TIMEOUT), False),
        (SendResult(DeliveryError.UNREACHABLE), False),
        (SendResult(DeliveryError.TLS), False),
        (SendResult(DeliveryError.REDIRECT, 302), True),
        (SendResult(DeliveryError.NOT_CONFIGURED), True),
    ],
)
def test_an_error_that_no_later_attempt_avoids_ends_the_delivery(result: SendResult, permanent: bool) -> None:
    assert result.is_permanent is permanent
    assert state_after(result, 1) is (DeliveryState.FAILED if permanent else DeliveryState.RETRYING)
    assert state_after(result, ATTEMPTS_MAX) is DeliveryState.FAILED


def test_an_accepted_notification_is_delivered() -> None:
    assert state_after(SendResult(DeliveryError.NONE, 200), ATTEMPTS_MAX) is DeliveryState.DELIVERED


def test_delays_grow_up_to_a_limit_and_end_after_about_an_hour() -> None:
    delays = [retry_delay_s(n) for n in range(1, ATTEMPTS_MAX)]
    assert all(a <= b for a, b in pairwise(delays)) and delays[0] == 5.0 and delays[-1] == RETRY_MAX_S
    assert 45 * 60 < sum(delays) < 90 * 60
    assert retry_delay_s(10_000) == RETRY_MAX_S
