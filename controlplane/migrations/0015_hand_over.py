from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0014_move_waits"),
    ]

    operations = [
        migrations.AddField(model_name="partition", name="archive_start", field=models.BigIntegerField(null=True)),
        migrations.AddField(model_name="partition", name="archive_epoch", field=models.IntegerField(null=True)),
        migrations.AddField(model_name="partition", name="holders", field=models.JSONField(default=list)),
        migrations.AddField(
            model_name="move", name="handover", field=models.CharField(default="", max_length=10)
        ),
        migrations.AddField(model_name="movepartition", name="hand_over_at", field=models.BigIntegerField(null=True)),
    ]
