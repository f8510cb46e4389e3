from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0011_tail_moves"),
    ]

    operations = [
        migrations.AddField(
            model_name="cluster",
            name="drift",
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.CreateModel(
            name="Alert",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=40)),
                ("subject", models.CharField(default="", max_length=100)),
                ("severity", models.CharField(max_length=20)),
                ("text", models.TextField()),
                ("do", models.TextField()),
                ("since", models.DateTimeField()),
                ("ended_at", models.DateTimeField(db_index=True, null=True)),
            ],
            options={
                "ordering": ["-id"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=("kind", "subject"),
                        name="one_open_alert_per_subject",
                    )
                ],
            },
        ),
    ]
