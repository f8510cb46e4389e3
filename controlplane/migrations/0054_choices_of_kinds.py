"""Choices of operations and kinds. The names of functions: later operations and kinds of jobs need no migration."""

import controlplane.models.change
import controlplane.models.spark
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0053_partition_voters'),
    ]

    operations = [
        migrations.AlterField(
            model_name='change',
            name='verb',
            field=models.CharField(choices=controlplane.models.change.operation_choices, help_text='Kind and operation: topic.create.', max_length=40),
        ),
        migrations.AlterField(
            model_name='handledrequest',
            name='kind',
            field=models.CharField(choices=[('create_topics', 'create topics'), ('delete_topics', 'delete topics'), ('create_partitions', 'create partitions'), ('alter_topic_configs', 'alter topic configs'), ('alter_broker_configs', 'alter broker configs'), ('alter_access', 'alter access'), ('alter_reassignments', 'alter reassignments'), ('elect_leaders', 'elect leaders'), ('update_features', 'update features'), ('raise_metadata_level', 'raise metadata level'), ('controlled_shutdown', 'controlled shutdown')], help_text='Kind of the request of a broker (brokerd.cluster.requests).', max_length=40),
        ),
        migrations.AlterField(
            model_name='sparkjob',
            name='kind',
            field=models.CharField(choices=controlplane.models.spark.kind_choices, db_index=True, max_length=40),
        ),
    ]
