"""Access that the metadata log carries. ACLs stored before are carried from now on."""

from django.db import migrations, models

FIELDS = ("resource_type", "pattern_type", "resource_name", "principal", "host", "operation", "permission")


def carry(apps, schema_editor):
    entry, acl = apps.get_model("controlplane", "AccessEntry"), apps.get_model("controlplane", "Acl")
    for row in acl.objects.all():
        value = {f: getattr(row, f) for f in FIELDS}
        key = "|".join(value[f].replace("|", "\\|") for f in FIELDS)
        entry.objects.get_or_create(kind="acl", key=key, defaults={"value": value, "changed_by": row.created_by})


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0003_restart_blockers"),
    ]

    operations = [
        migrations.CreateModel(
            name="AccessEntry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=10)),
                ("key", models.CharField(max_length=1000)),
                ("value", models.JSONField(null=True)),
                ("generation", models.PositiveBigIntegerField(default=1)),
                ("applied_generation", models.PositiveBigIntegerField(default=0)),
                ("controller_epoch", models.PositiveBigIntegerField(default=0)),
                ("waiting", models.BooleanField(db_index=True, default=True)),
                ("changed_at", models.DateTimeField(auto_now=True)),
                ("changed_by", models.CharField(max_length=150)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("kind", "key"), name="one_row_per_access_key")],
            },
        ),
        migrations.RunPython(carry, migrations.RunPython.noop),
    ]
