from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0018_move_sums"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="movepartition",
            index=models.Index(
                fields=[
                    "move",
                    "state",
                    "cause",
                    "replicas_from",
                    "replicas_to",
                    "wanted",
                    "bytes_total",
                    "bytes_done",
                    "bytes_per_s",
                ],
                name="parts_as_sums",
            ),
        ),
    ]
