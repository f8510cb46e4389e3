"""The migration that moves the parts of the subject of an alert to columns."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection
from django.utils import timezone

from brokerd.cluster.rejection_reasons import RejectionReason
from controlplane.models import Alert

pytestmark = pytest.mark.django_db
MIGRATION = import_module("controlplane.migrations.0052_alert_parts")


def test_stored_alerts_get_their_columns() -> None:
    found = {
        ("client_refused", "User:x (unauthorized)"): ("User:x", "unauthorized", "", ""),
        ("client_refused", "User:CN=a (b) (authentication failed)"): ("User:CN=a (b)", "authentication_failed", "", ""),
        ("client_refused", "a text of another version"): ("", "", "", ""),
        ("dead_letters_missing", "a: b: tasks"): ("", "", "a: b", "tasks"),
        ("group_stopped", "a: b (unauthorized)"): ("", "", "", ""),
    }
    for kind, subject in found:
        Alert.objects.create(kind=kind, subject=subject, severity="degraded", text="x", do="y", since=timezone.now())
    MIGRATION.forwards(apps, connection.schema_editor())
    rows = Alert.objects.values_list("kind", "subject", "client", "client_reason", "group_id", "topic")
    assert {(kind, subject): tuple(columns) for kind, subject, *columns in rows} == found


def test_the_migration_knows_the_reasons() -> None:
    assert set(MIGRATION.REASONS) == set(RejectionReason)
