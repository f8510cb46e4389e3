from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0013_move_deadline"),
    ]

    operations = [
        migrations.AddField(
            model_name="move",
            name="waits",
            field=models.JSONField(default=dict),
        ),
    ]
