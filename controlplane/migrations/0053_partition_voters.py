"""The voters of partitions with majority acknowledgements. The monitor writes all rows again at its next start."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0052_alert_parts")]

    operations = [
        migrations.AddField(
            model_name="observedpartition",
            name="voters",
            field=models.JSONField(
                default=list, help_text="Replicas that vote about the leader. Only with majority acknowledgements."
            ),
        ),
    ]
