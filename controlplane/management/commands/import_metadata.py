"""`manage.py import_metadata`: after the loss of the database, import topics, configs, ACLs, credentials, quotas and broker configs from
the metadata log. Groups need no rows: the cluster monitor reads them from the brokers.

Only adds rows. The cluster keeps running and is not changed. docs/how-to/disaster.md.
"""

from __future__ import annotations

from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from brokerd.cluster.blocking import Unreachable
from brokerd.cluster.metadata import MetadataError
from controlplane.disaster import metalog, reach, rows
from controlplane.services.access import import_access
from weir_common.java import JavaMissing


class Command(BaseCommand):
    help = "Import topics, ACLs, credentials, quotas and broker configs from the metadata log that have no row, or an older one."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--data-dir", type=Path, default=settings.WEIR.data_dir, help="data directory of the local cluster"
        )
        parser.add_argument(
            "--zookeeper",
            help="host:port[,host:port..]; default: WEIR_ZOOKEEPER, or the local cluster's, started if it does not run",
        )

    def handle(self, *_args: str, data_dir: Path, zookeeper: str | None, **_options: object) -> None:
        try:
            with reach.zookeeper_connection(data_dir.resolve(), zookeeper) as zk:
                image = metalog.read_log(zk).image
        except (MetadataError, Unreachable, JavaMissing) as e:
            raise CommandError(str(e)) from e
        if not image.seq:
            raise CommandError(
                "ZooKeeper contains no metadata log; there is nothing to import (see `manage.py rebuild`)"
            )
        call_command("migrate", verbosity=0, interactive=False)
        imported, notes = rows.import_topics(image, actor="import")
        access = import_access(image, actor="import")
        for note in notes:
            self.stdout.write(f"note: {note}")
        self.stdout.write(
            f"Imported {len(imported)} topics of cluster {image.cluster_id}, read up to entry {image.seq}; "
            f"{access} ACLs, credentials, quotas and broker configs. Consumer groups and their offsets are in the brokers' logs: the "
            "console shows them as soon as brokers answer."
        )
