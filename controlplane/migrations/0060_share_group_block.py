"""Why a share group cannot read a partition further."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0059_change_phrases")]

    operations = [
        migrations.AddField(
            "sharegrouppartition",
            "block",
            models.CharField(
                blank=True,
                choices=[
                    ("", "none"),
                    ("no_leader", "no leader"),
                    ("under_min_isr", "under min isr"),
                    ("open_transaction", "open transaction"),
                ],
                default="",
                max_length=20,
            ),
        ),
    ]
