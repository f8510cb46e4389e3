"""Notifications as bytes for their receivers: JSON for a webhook, Slack and PagerDuty, subject and text for e-mail. Pure.

Invariant: every message about one incident has the same key, so that a receiver can join them and drop a repeated one. Does not contain: connections
(`controlplane.clients.notifications`).
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from controlplane.domain.alert_types import Severity
from controlplane.domain.notification import DeliveryEvent
from controlplane.domain.text import count_text

EFFECTS_MAX = 20
"""Maximum number of explained alerts that a notification lists. The others are only counted."""

SUMMARY_CHARS_MAX = 1_024
"""Limit of PagerDuty for the summary of an event."""

SUBJECT_CHARS_MAX = 200
"""Maximum length of the subject of an e-mail."""

VERSION = 1
"""Version of the JSON of a webhook. New fields do not change it."""

LABELS = {
    DeliveryEvent.TRIGGERED: "",
    DeliveryEvent.ESCALATED: "Escalated: ",
    DeliveryEvent.ACKNOWLEDGED: "Acknowledged: ",
    DeliveryEvent.RESOLVED: "Resolved: ",
    DeliveryEvent.TEST: "Test: ",
}
ACTIONS = {
    DeliveryEvent.ACKNOWLEDGED: "acknowledge",
    DeliveryEvent.RESOLVED: "resolve",
}
"""PagerDuty's event_action. Every other event triggers; a repeated dedup_key updates the incident."""

PAGERDUTY_SEVERITIES = {Severity.AT_RISK: "critical", Severity.DEGRADED: "warning"}
COLORS = {Severity.AT_RISK: "#d1242f", Severity.DEGRADED: "#bf8700"}
COLOR_RESOLVED = "#1a7f37"


@dataclass(frozen=True, slots=True)
class ExplainedAlert:
    """An alert that the cause explains."""

    kind: str
    subject: str
    severity: str
    text: str


@dataclass(frozen=True, slots=True)
class Message:
    """One notification. `key`: the same for all events of one incident. `id`: of the delivery. Times are ISO 8601. `effects_count`: also of those that
    are not listed. `url`: the page of the alert, empty if the console's address is not configured."""

    id: str
    key: str
    event: DeliveryEvent
    cluster: str
    at: str
    alert_id: int | None
    kind: str
    subject: str
    severity: str
    text: str
    do: str
    since: str
    ended_at: str | None
    effects: tuple[ExplainedAlert, ...]
    effects_count: int
    url: str

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> Message:
        """The message in the row of a delivery. Raises TypeError, KeyError or ValueError for another shape."""
        effects = tuple(ExplainedAlert(**e) for e in stored["effects"])
        return Message(**{**stored, "event": DeliveryEvent(stored["event"]), "effects": effects})

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @property
    def title(self) -> str:
        return f"{LABELS[self.event]}{self.text}"

    @property
    def lines(self) -> list[str]:
        """The facts below the title."""
        found = [] if self.event is DeliveryEvent.RESOLVED or not self.do else [self.do]
        if self.effects_count:
            found.append(f"It explains {count_text(self.effects_count, 'other alert')}:")
            found += [f"- {e.text}" for e in self.effects]
            if self.effects_count > len(self.effects):
                found.append(f"- and {self.effects_count - len(self.effects)} more")
        return found


TEST_TEXT = "This is a test notification. No action is needed."


def sample_message(delivery_id: str, key: str, cluster: str, at: str, url: str) -> Message:
    """The message of the button “Send test notification”."""
    return Message(
        id=delivery_id,
        key=key,
        event=DeliveryEvent.TEST,
        cluster=cluster,
        at=at,
        alert_id=None,
        kind="test",
        subject="",
        severity=Severity.DEGRADED,
        text=TEST_TEXT,
        do="",
        since=at,
        ended_at=None,
        effects=(),
        effects_count=0,
        url=url,
    )


def webhook_body(message: Message) -> bytes:
    return _json(
        {
            "version": VERSION,
            "id": message.id,
            "key": message.key,
            "event": message.event,
            "cluster": message.cluster,
            "at": message.at,
            "alert": {
                "id": message.alert_id,
                "kind": message.kind,
                "subject": message.subject,
                "severity": message.severity,
                "text": message.text,
                "do": message.do,
                "since": message.since,
                "ended_at": message.ended_at,
                "url": message.url,
            },
            "explains": [
                {"kind": e.kind, "subject": e.subject, "severity": e.severity, "text": e.text} for e in message.effects
            ],
            "explains_count": message.effects_count,
        }
    )


def signature(secret: str, body: bytes) -> str:
    """Value of the signature header: HMAC-SHA256 of the body, as GitHub's webhooks have it."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def slack_body(m: Message) -> bytes:
    """An incoming webhook: `text` is the notification of the phone, the attachment has the details."""
    details = [_slack_escape(line) for line in m.lines]
    if m.url:
        details.append(f"<{m.url}|Open in the console>")
    color = COLOR_RESOLVED if m.event is DeliveryEvent.RESOLVED else COLORS[Severity(m.severity)]
    text = f"*[{_slack_escape(m.cluster)}]* {_slack_escape(m.title)}"
    return _json({"text": text, "attachments": [{"color": color, "text": "\n".join(details), "mrkdwn_in": ["text"]}]})


def pagerduty_body(message: Message, routing_key: str) -> bytes:
    """An event of the Events API v2."""
    event: dict[str, object] = {
        "routing_key": routing_key,
        "event_action": ACTIONS.get(message.event, "trigger"),
        "dedup_key": message.key,
        "client": "Weir",
    }
    if message.url:
        event["client_url"] = message.url
    if event["event_action"] == "trigger":
        event["payload"] = {
            "summary": f"[{message.cluster}] {message.title}"[:SUMMARY_CHARS_MAX],
            "source": message.cluster,
            "severity": "info"
            if message.event is DeliveryEvent.TEST
            else PAGERDUTY_SEVERITIES[Severity(message.severity)],
            "timestamp": message.since,
            "component": message.subject,
            "class": message.kind,
            "custom_details": {"do": message.do, "explains": [e.text for e in message.effects]},
        }
    return _json(event)


def email_subject(m: Message) -> str:
    """Join the lines: a line break in a subject would add headers."""
    return " ".join(f"[{m.cluster}] {m.title}".split())[:SUBJECT_CHARS_MAX]


def email_text(m: Message) -> str:
    lines = [m.title, *m.lines, f"Since {m.since}" + (f", ended {m.ended_at}" if m.ended_at else "")]
    if m.subject:
        lines.append(f"{_with_spaces(m.kind)}: {m.subject}")
    return "\n\n".join(["\n".join(lines), *([m.url] if m.url else [])]) + "\n"


def _with_spaces(kind: str) -> str:
    return kind.replace("_", " ")


def _slack_escape(text: str) -> str:
    """Escape the three characters that Slack interprets as markup, so that the name of a group cannot mention a channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
