"""Columns for the parts of the subject of two kinds of alerts: "User:x (unauthorized)" of a rejected client, "GROUP: TOPIC" of missing dead letters."""

from __future__ import annotations

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

REASONS = (
    "authentication_failed",
    "not_authenticated",
    "certificate_not_mapped",
    "tls_failed",
    "unsupported_version",
    "unsupported_api",
    "malformed",
    "too_large",
    "unauthorized",
    "throttled",
    "connection_limit",
)


def forwards(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    rows = apps.get_model("controlplane", "Alert").objects
    for alert in rows.filter(kind="client_refused", client="").iterator():
        client, _, rest = alert.subject.rpartition(" (")
        reason = rest.removesuffix(")").replace(" ", "_")
        if client and reason in REASONS:
            alert.client, alert.client_reason = client, reason
            alert.save(update_fields=["client", "client_reason"])
    for alert in rows.filter(kind="dead_letters_missing", group_id="").iterator():
        group, _, topic = alert.subject.rpartition(": ")  # a topic has no colon in its name; a group may have one
        if group and topic:
            alert.group_id, alert.topic = group[:255], topic[:249]
            alert.save(update_fields=["group_id", "topic"])


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0051_spark_worker_polls")]

    operations = [
        migrations.AddField(
            model_name="alert",
            name="client",
            field=models.TextField(
                blank=True, default="", help_text="Of an alert about a rejected client: its principal or address."
            ),
        ),
        migrations.AddField(
            model_name="alert",
            name="client_reason",
            field=models.CharField(
                blank=True,
                choices=[(reason, reason.replace("_", " ")) for reason in REASONS],
                default="",
                max_length=40,
            ),
        ),
        migrations.AddField(
            model_name="alert",
            name="group_id",
            field=models.CharField(
                blank=True, default="", help_text="Share group of an alert about missing dead letters.", max_length=255
            ),
        ),
        migrations.AddField(
            model_name="alert",
            name="topic",
            field=models.CharField(
                blank=True, default="", help_text="Topic of the records of `group_id`.", max_length=249
            ),
        ),
        migrations.RunPython(forwards, migrations.RunPython.noop),
    ]
