"""Columns for the metric of an alert and its object. Until now both were a part of the subject: "records_per_s of topic:orders"."""

from __future__ import annotations

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

OBJECT_KINDS = ("cluster", "topic", "group", "share_group", "broker", "partition", "broker_api")


def forwards(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    for alert in apps.get_model("controlplane", "Alert").objects.filter(kind="anomaly", metric="").iterator():
        metric, _, subject = alert.subject.partition(" of ")
        kind, _, name = subject.partition(":")
        if kind in OBJECT_KINDS:
            alert.metric, alert.object_kind, alert.object_name = metric, kind, name
            alert.save(update_fields=["metric", "object_kind", "object_name"])


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0048_worker_polls")]

    operations = [
        migrations.AddField(
            model_name="alert",
            name="metric",
            field=models.CharField(
                blank=True, default="", help_text="Of an anomaly; empty: of other alerts.", max_length=40
            ),
        ),
        migrations.AddField(
            model_name="alert",
            name="object_kind",
            field=models.CharField(
                blank=True,
                choices=[(kind, kind.replace("_", " ")) for kind in OBJECT_KINDS],
                default="",
                max_length=20,
            ),
        ),
        migrations.AddField(
            model_name="alert",
            name="object_name",
            field=models.CharField(
                blank=True,
                default="",
                help_text="Name of the object of the metric; empty: the cluster.",
                max_length=300,
            ),
        ),
        migrations.RunPython(forwards, migrations.RunPython.noop),
    ]
