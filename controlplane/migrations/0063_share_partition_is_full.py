"""Whether a share partition is at its limit of records in flight."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0062_move_waits")]

    operations = [
        migrations.AddField(
            "sharegrouppartition",
            "is_full",
            models.BooleanField(null=True, help_text="The limit of records in flight is reached; null: unknown."),
        ),
    ]
