"""The form of a notification channel shows the fields of its kind, and no credential."""

from __future__ import annotations

import pytest
from django.utils import timezone

from console.notification_forms import ChannelForm
from controlplane.domain.alert_types import AlertKind
from controlplane.domain.notification import ChannelKind
from controlplane.selectors.notifications import NotificationChannelRow

NOW = timezone.now()
ROW = NotificationChannelRow(
    1,
    "ops",
    "webhook",
    False,
    "at_risk",
    ["drift"],
    False,
    "https://a.example",
    [],
    True,
    NOW,
    "root",
    None,
    None,
    "",
    False,
    4,
)


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        (ChannelKind.WEBHOOK, {"url", "secret"}),
        (ChannelKind.SLACK, {"url"}),
        (ChannelKind.EMAIL, {"recipients"}),
        (ChannelKind.PAGERDUTY, {"url", "secret"}),
    ],
)
def test_a_kind_has_its_own_fields(kind: ChannelKind, own: set[str]) -> None:
    assert {"url", "secret", "recipients"} & set(ChannelForm(kind, None).fields) == own


def test_the_form_of_an_existing_channel_has_its_values_without_credentials() -> None:
    form = ChannelForm(ChannelKind.WEBHOOK, ROW)
    assert form["name"].value() == "ops" and form["alert_kinds"].value() == ["drift"]
    assert not form["enabled"].value() and not form["url"].value() and not form["secret"].value()
    assert "remove_secret" in form.fields
    assert form["version"].value() == 4 and "version" not in ChannelForm(ChannelKind.WEBHOOK, None).fields


def test_an_empty_credential_is_unchanged_and_a_removed_one_is_null() -> None:
    data = {"name": "ops", "severity_min": "degraded", "remove_secret": "on", "version": "4"}
    form = ChannelForm(ChannelKind.WEBHOOK, ROW, data)
    assert form.is_valid(), form.errors
    values = form.values()
    assert values["url"] == "" and values["secret"] is None and values["enabled"] is False
    assert not {"comment", "version"} & set(values)


def test_recipients_are_lines() -> None:
    data = {"name": "ops", "severity_min": "degraded", "recipients": " a@example.com \n\nb@example.com"}
    form = ChannelForm(ChannelKind.EMAIL, None, data)
    assert form.is_valid() and form.values()["recipients"] == ["a@example.com", "b@example.com"]


def test_kinds_of_alerts_have_the_texts_of_the_alerts() -> None:
    """Operators do not know the keys of the kinds."""
    form = ChannelForm(ChannelKind.WEBHOOK, None)
    labels = dict(form.fields["alert_kinds"].choices)  # type: ignore[attr-defined]
    assert labels["disk_low"] == "Broker … is low on disk." and labels["drift"].startswith("Topics differ")
    assert set(labels) == set(AlertKind)
