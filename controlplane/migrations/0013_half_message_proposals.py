"""Kinds of proposals for decisions about half messages."""

from __future__ import annotations

from django.db import migrations, models

KINDS = [
    ("move.approve", "move against a safety refusal"),
    ("move.delete_records", "deletion of old records before retention"),
    ("election.unclean", "unclean leader election"),
    ("transaction.abort", "abort of a hanging transaction"),
    ("transaction.fence", "fencing of an open transaction"),
    ("half.commit", "commit of a half message"),
    ("half.rollback", "rollback of a half message"),
]


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0012_history")]

    operations = [
        migrations.AlterField(
            model_name="proposal",
            name="kind",
            field=models.CharField(choices=KINDS, max_length=40),
        )
    ]
