from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0016_move_waits_for"),
    ]

    operations = [
        migrations.AddField(model_name="partition", name="lagging", field=models.JSONField(default=dict)),
    ]
