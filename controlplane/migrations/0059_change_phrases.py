"""Phrases of the details of the audit log, beside its sealed rows."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0058_adaptive_throttle_names'),
    ]

    operations = [
        migrations.CreateModel(
            name='ChangePhrase',
            fields=[
                ('change', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='phrase', serialize=False, to='controlplane.change')),
                ('detail', models.JSONField(default=dict, help_text='Text and values of the detail (weir_common.phrases), for other languages.')),
            ],
        ),
    ]
