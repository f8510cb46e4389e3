from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0015_hand_over"),
    ]

    operations = [
        migrations.AddField(model_name="move", name="waits_for", field=models.TextField(default="")),
    ]
