from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0005_moves_paced"),
    ]

    operations = [
        migrations.CreateModel(
            name="Feature",
            fields=[
                ("name", models.CharField(max_length=100, primary_key=True, serialize=False)),
                ("level", models.PositiveIntegerField()),
                ("controller_epoch", models.PositiveBigIntegerField()),
            ],
        ),
    ]
