"""`metric` instead of `figure`, in columns and in stored JSON."""

from __future__ import annotations

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def _rename_keys(apps: Apps, old: str, new: str, values_old: str, values_new: str) -> None:
    for run in apps.get_model("controlplane", "SparkRun").objects.filter(status__has_key="forecasts").iterator():
        for name in ("forecasts", "accuracy"):
            run.status[name] = [{new if k == old else k: v for k, v in row.items()} for row in run.status.get(name, [])]
        run.save(update_fields=["status"])
    for proposal in apps.get_model("controlplane", "Proposal").objects.filter(shown__has_key=values_old).iterator():
        proposal.shown[values_new] = proposal.shown.pop(values_old)
        proposal.save(update_fields=["shown"])


def forwards(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    _rename_keys(apps, "figure", "metric", "figures", "current_values")


def backwards(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    _rename_keys(apps, "metric", "figure", "current_values", "figures")


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0043_share_group_partitions")]

    operations = [
        migrations.RemoveConstraint("historyseries", "one_row_per_history_series"),
        migrations.RenameField("historyseries", "figure", "metric"),
        migrations.AddConstraint(
            "historyseries",
            models.UniqueConstraint(fields=["subject", "metric"], name="one_row_per_history_series"),
        ),
        migrations.RemoveConstraint("anomaly", "one_row_per_anomaly"),
        migrations.RenameField("anomaly", "figure", "metric"),
        migrations.AddConstraint(
            "anomaly", models.UniqueConstraint(fields=["subject", "metric"], name="one_row_per_anomaly")
        ),
        migrations.RenameField("othercluster", "figures", "metrics"),
        migrations.RunPython(forwards, backwards),
        migrations.AlterField(
            model_name="broker",
            name="answered",
            field=models.BooleanField(
                help_text="Whether the broker answered the last request for its metrics.", null=True
            ),
        ),
        migrations.AlterField(
            model_name="broker",
            name="requests",
            field=models.JSONField(
                default=list,
                help_text="Metrics of its requests by API; empty: not reported, or the broker did not answer.",
            ),
        ),
        migrations.AlterField(
            model_name="cluster",
            name="sampled_at",
            field=models.DateTimeField(help_text="When the brokers were last asked for their metrics.", null=True),
        ),
        migrations.AlterField(
            model_name="topicmessages",
            name="sampled_at",
            field=models.DateTimeField(help_text="Time of the oldest answer in these metrics."),
        ),
    ]
