from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0036_submitted_and_requested'),
    ]

    operations = [
        migrations.RenameModel(old_name='Partition', new_name='ObservedPartition'),
        migrations.RenameModel(old_name='Replica', new_name='ObservedReplica'),
    ]
