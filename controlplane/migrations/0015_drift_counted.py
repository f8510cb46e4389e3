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
    ]
