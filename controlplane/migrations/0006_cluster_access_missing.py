from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0005_incidents'),
    ]

    operations = [
        migrations.AddField(
            model_name='cluster',
            name='access_missing',
            field=models.PositiveIntegerField(help_text='ACLs, credentials, quotas and broker configs of the metadata log without a row, or with an older one; null: not counted yet.', null=True),
        ),
    ]
