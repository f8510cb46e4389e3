"""The reasons why a move waits, as codes with numbers of partitions instead of an English text. The next step of each unfinished move determines them again."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0061_replicas_by_size")]

    operations = [
        migrations.RemoveField("move", "waits_for"),
        migrations.AddField("move", "waits_for", models.JSONField(default=tuple), preserve_default=False),
    ]
