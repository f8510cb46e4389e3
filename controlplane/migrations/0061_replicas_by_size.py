"""The largest replicas of a broker are read from an index."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0060_share_group_block")]

    operations = [
        migrations.AddIndex(
            model_name="observedreplica",
            index=models.Index(fields=["broker_id", "-size_bytes", "index"], name="replicas_by_size"),
        ),
    ]
