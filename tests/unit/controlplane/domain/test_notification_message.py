"""Notifications in the formats of their receivers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from controlplane.domain import notification_message as texts
from controlplane.domain.notification import DeliveryEvent
from controlplane.domain.notification_message import ExplainedAlert, Message

MESSAGE = Message(
    id="d1",
    key="weir-prod-alert-7-1",
    event=DeliveryEvent.TRIGGERED,
    cluster="prod",
    at="2026-11-23T10:00:10+00:00",
    alert_id=7,
    kind="group_stalled",
    subject="<!channel> & co",
    severity="at_risk",
    text="Group <!channel> & co is stalled.",
    do="Check the record.",
    since="2026-11-23T10:00:00+00:00",
    ended_at=None,
    effects=(ExplainedAlert("drift", "", "degraded", "Two topics differ."),),
    effects_count=3,
    url="https://weir.example/alerts/7/",
)


def test_a_webhook_gets_everything() -> None:
    body = json.loads(texts.webhook_body(MESSAGE))
    assert (body["version"], body["id"], body["key"], body["event"]) == (1, "d1", "weir-prod-alert-7-1", "triggered")
    assert body["alert"]["subject"] == "<!channel> & co" and body["alert"]["ended_at"] is None
    assert body["explains"] == [{"kind": "drift", "subject": "", "severity": "degraded", "text": "Two topics differ."}]
    assert body["explains_count"] == 3


def test_the_signature_is_that_of_github() -> None:
    """The example of GitHub's documentation of webhooks."""
    expected = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert texts.signature("It's a Secret to Everybody", b"Hello, World!") == expected


def test_a_name_cannot_mention_a_channel_in_slack() -> None:
    body = json.loads(texts.slack_body(MESSAGE))
    assert body["text"] == "*[prod]* Group &lt;!channel&gt; &amp; co is stalled."
    (attachment,) = body["attachments"]
    assert attachment["text"].splitlines() == [
        "Check the record.",
        "It explains 3 other alerts:",
        "- Two topics differ.",
        "- and 2 more",
        "<https://weir.example/alerts/7/|Open in the console>",
    ]
    resolved = json.loads(texts.slack_body(replace(MESSAGE, event=DeliveryEvent.RESOLVED)))
    assert resolved["text"].startswith("*[prod]* Resolved: ")
    assert resolved["attachments"][0]["color"] != attachment["color"]


@pytest.mark.parametrize(
    ("event", "action"),
    [
        (DeliveryEvent.TRIGGERED, "trigger"),
        (DeliveryEvent.ESCALATED, "trigger"),
        (DeliveryEvent.ACKNOWLEDGED, "acknowledge"),
        (DeliveryEvent.RESOLVED, "resolve"),
    ],
)
def test_pagerduty_joins_the_events_by_their_key(event: DeliveryEvent, action: str) -> None:
    body = json.loads(texts.pagerduty_body(replace(MESSAGE, event=event), "R0"))
    assert (body["event_action"], body["dedup_key"], body["routing_key"]) == (action, MESSAGE.key, "R0")
    assert ("payload" in body) is (action == "trigger")


def test_a_pagerduty_body_has_a_limited_summary_and_the_severity() -> None:
    body = json.loads(texts.pagerduty_body(replace(MESSAGE, text="x" * 5000), "R0"))
    assert len(body["payload"]["summary"]) == texts.SUMMARY_CHARS_MAX
    assert body["payload"]["severity"] == "critical" and body["client_url"] == MESSAGE.url
    sample = texts.sample_message("d", "k", "prod", "2026-11-23T10:00:00+00:00", "")
    body = json.loads(texts.pagerduty_body(sample, "R0"))
    assert body["payload"]["severity"] == "info" and "client_url" not in body


def test_a_mail_has_one_line_as_subject() -> None:
    broken = replace(MESSAGE, text="a\r\nBcc: b@example.com " + "c" * 500)
    assert texts.email_subject(broken).startswith("[prod] a Bcc: b@example.com c")
    assert len(texts.email_subject(broken)) == texts.SUBJECT_CHARS_MAX
    text = texts.email_text(replace(MESSAGE, event=DeliveryEvent.RESOLVED, ended_at="later"))
    assert "ended later" in text and "Check the record." not in text and text.endswith(f"{MESSAGE.url}\n")


def test_a_message_is_read_back_from_a_row() -> None:
    assert Message.from_json(json.loads(json.dumps(MESSAGE.to_json()))) == MESSAGE
    with pytest.raises(TypeError):
        Message.from_json({**MESSAGE.to_json(), "unknown": 1})
