from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0002_masking_and_produce")]

    operations = [
        migrations.CreateModel(
            name="IdempotencyKey",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("actor", models.CharField(max_length=150)),
                ("key", models.CharField(max_length=255)),
                ("fingerprint", models.CharField(help_text="HMAC-SHA-256 of method, path and body.", max_length=64)),
                (
                    "status",
                    models.PositiveSmallIntegerField(
                        help_text="HTTP status of the response; null: none yet.", null=True
                    ),
                ),
                ("body", models.JSONField(null=True)),
                (
                    "secret",
                    models.BooleanField(
                        default=False, help_text="The response contained a secret, which is not stored."
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True, db_index=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("actor", "key"), name="one_request_per_actor_and_key")
                ]
            },
        )
    ]
