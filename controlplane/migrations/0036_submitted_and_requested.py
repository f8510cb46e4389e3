from typing import Any

from django.db import migrations, models

INDEX = models.Index(
    fields=['move', 'state', 'cause', 'replicas_from', 'replicas_to', 'desired_replicas', 'bytes_total', 'bytes_done', 'bytes_per_s'],
    name='parts_as_sums',
)
RECOVERY = models.UniqueConstraint(
    condition=models.Q(('state__in', ['requested', 'reset', 'copying'])),
    fields=('topic_id', 'partition', 'broker_id'),
    name='one_recovery_per_replica',
)
RECOVERY_STATES = [('requested', 'requested'), ('reset', 'reset'), ('copying', 'copying'), ('done', 'done'), ('failed', 'failed')]
ARCHIVE_STATES = [
    ('requested', 'requested'), ('running', 'running'), ('stopping', 'stopping'), ('stopped', 'stopped'), ('failed', 'failed')
]


def renamed(before: str, after: str) -> Any:
    """A step that renames the state of the rows that have it."""

    def run(apps: Any, schema_editor: Any) -> None:
        for name in ('ReplicaRecovery', 'ArchiveJob'):
            rows = apps.get_model('controlplane', name).objects.using(schema_editor.connection.alias)
            rows.filter(state=before).update(state=after)

    return run


def renamed_in_steps(before: str, after: str) -> Any:
    """A step that renames a field of the stored steps of cluster documents. Their digest has the values of the field, not its name."""

    def run(apps: Any, schema_editor: Any) -> None:
        rows = apps.get_model('controlplane', 'DocumentPlan').objects.using(schema_editor.connection.alias)
        for row in rows.only('steps').iterator(chunk_size=100):
            row.steps = [{after if name == before else name: value for name, value in step.items()} for step in row.steps]
            row.save(update_fields=['steps'])

    return run


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0035_roles_for_more_resources'),
    ]

    operations = [
        migrations.RemoveIndex(model_name='movepartition', name='parts_as_sums'),
        migrations.RenameField(model_name='movepartition', old_name='wanted', new_name='desired_replicas'),
        migrations.RenameField(model_name='movepartition', old_name='ordered_at', new_name='submitted_at'),
        migrations.AddIndex(model_name='movepartition', index=INDEX),
        migrations.RemoveConstraint(model_name='replicarecovery', name='one_recovery_per_replica'),
        migrations.RunPython(renamed('asked', 'requested'), renamed('requested', 'asked')),
        migrations.RunPython(renamed_in_steps('wanted', 'desired'), renamed_in_steps('desired', 'wanted')),
        migrations.AlterField(
            model_name='replicarecovery',
            name='state',
            field=models.CharField(choices=RECOVERY_STATES, default='requested', max_length=20),
        ),
        migrations.AddConstraint(model_name='replicarecovery', constraint=RECOVERY),
        migrations.AlterField(
            model_name='archivejob',
            name='state',
            field=models.CharField(choices=ARCHIVE_STATES, db_index=True, default='requested', max_length=20),
        ),
    ]
