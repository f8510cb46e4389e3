"""Notifications of incidents: which channel receives which event, and when a failed delivery is attempted again. Pure.

Invariants: an incident causes one notification per channel and event, however many alerts its cause explains. A silenced incident is not
sent. An acknowledged incident is not sent again until it ends. Does not contain: the text of a notification (`notification_message`), rows, clocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from controlplane.domain.alert_rows import FLAP_SECONDS
from controlplane.domain.alert_types import AlertKind, Severity

ATTEMPTS_MAX = 12
"""Maximum number of attempts of one delivery. With the delays below the last one is about an hour after the first: after a longer outage an operator should read the list of
alerts, not old notifications."""

RETRY_FIRST_S, RETRY_MAX_S = 5.0, 600.0
"""Delay before the second attempt, which doubles with each attempt, and its limit."""

SETTLE_S = 10.0
"""An incident is sent when it is this old. Within this time most causes are detected, so their effects are not sent as incidents of their own."""

RESOLVED_AFTER_S = FLAP_SECONDS
"""An alert is sent as resolved when it ended this long ago. Until then it may be reopened, which would cause another pair of notifications."""


class ChannelKind(StrEnum):
    WEBHOOK = "webhook"
    SLACK = "slack"
    EMAIL = "email"
    PAGERDUTY = "pagerduty"


class DeliveryEvent(StrEnum):
    TRIGGERED = "triggered"
    ESCALATED = "escalated"
    """The incident was sent as degraded and is now at risk."""
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"
    TEST = "test"


class DeliveryState(StrEnum):
    PENDING = "pending"
    SENDING = "sending"
    RETRYING = "retrying"
    DELIVERED = "delivered"
    FAILED = "failed"
    CANCELLED = "cancelled"
    """The delivery became unnecessary before a receiver accepted it."""


OPEN_STATES = (DeliveryState.PENDING, DeliveryState.SENDING, DeliveryState.RETRYING)


class DeliveryError(StrEnum):
    """The reason why an attempt failed."""

    NONE = ""
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    TLS = "tls"
    STATUS = "status"
    """The receiver answered with an error status."""
    REDIRECT = "redirect"
    INVALID_URL = "invalid_url"
    NOT_CONFIGURED = "not_configured"
    SMTP = "smtp"


PERMANENT = frozenset({DeliveryError.REDIRECT, DeliveryError.INVALID_URL, DeliveryError.NOT_CONFIGURED})
"""Errors that occur again at every attempt: an operator must change the channel or the settings."""

TOO_EARLY, TIMED_OUT, TOO_MANY, SERVER_ERROR = 425, 408, 429, 500


@dataclass(frozen=True, slots=True)
class SendResult:
    """Outcome of one attempt. `status`: HTTP status or SMTP code, 0 = none. `response`: the first characters of the receiver's response, or what failed."""

    error: DeliveryError
    status: int = 0
    response: str = ""

    @property
    def is_permanent(self) -> bool:
        if self.error is DeliveryError.STATUS:
            return self.status < SERVER_ERROR and self.status not in (TIMED_OUT, TOO_EARLY, TOO_MANY)
        if self.error is DeliveryError.SMTP:
            return self.status >= SERVER_ERROR
        return self.error in PERMANENT


@dataclass(frozen=True, slots=True)
class ChannelRule:
    """`alert_kinds` empty: every kind."""

    kind: ChannelKind
    severity_min: Severity
    alert_kinds: frozenset[AlertKind] = frozenset()

    def covers(self, alerts: Mapping[AlertKind, Severity]) -> bool:
        """Return whether one of these alerts (the most severe of each kind) has a kind and a severity of this channel."""
        return any(
            (not self.alert_kinds or kind in self.alert_kinds)
            and (self.severity_min is Severity.DEGRADED or severity is Severity.AT_RISK)
            for kind, severity in alerts.items()
        )


@dataclass(frozen=True, slots=True)
class IncidentState:
    """An open incident. `alerts`: the kinds of its cause and of the alerts that the cause explains, each with its highest severity."""

    severity: Severity
    alerts: Mapping[AlertKind, Severity]
    age_s: float
    acknowledged: bool = False
    silenced: bool = False


def next_event(
    rule: ChannelRule, incident: IncidentState, severity_by_event: Mapping[DeliveryEvent, Severity]
) -> DeliveryEvent | None:
    """The event of this open incident that the channel has to send, with `severity_by_event`: the events so far and the severity that each had."""
    if DeliveryEvent.TRIGGERED not in severity_by_event:
        due = incident.age_s >= SETTLE_S and not incident.acknowledged and not incident.silenced
        return DeliveryEvent.TRIGGERED if due and rule.covers(incident.alerts) else None
    if incident.acknowledged:
        # Only an incident manager has a state for an acknowledgement. In a mailbox or a chat it would be just another message.
        desired = rule.kind is ChannelKind.PAGERDUTY and DeliveryEvent.ACKNOWLEDGED not in severity_by_event
        return DeliveryEvent.ACKNOWLEDGED if desired else None
    rose = incident.severity is Severity.AT_RISK and Severity.AT_RISK not in severity_by_event.values()
    return DeliveryEvent.ESCALATED if rose and not incident.silenced else None


def state_after(result: SendResult, attempts: int) -> DeliveryState:
    """State of a delivery after its attempt number `attempts`."""
    if result.error is DeliveryError.NONE:
        return DeliveryState.DELIVERED
    if result.is_permanent or attempts >= ATTEMPTS_MAX:
        return DeliveryState.FAILED
    return DeliveryState.RETRYING


def retry_delay_s(attempts: int) -> float:
    """Delay after the failed attempt number `attempts`."""
    return min(RETRY_MAX_S, RETRY_FIRST_S * 2.0 ** min(attempts - 1, 30))
