from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0017_partition_lagging"),
    ]

    operations = [
        migrations.AddField(model_name="move", name="sums", field=models.JSONField(null=True)),
    ]
