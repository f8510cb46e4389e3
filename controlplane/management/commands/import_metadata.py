"""`manage.py import_metadata`: the database is lost; topics, configs, ACLs, credentials, quotas and brokers' settings are taken over from the
metadata log. Groups need no row: the observer asks the brokers for them.

Law: only adds rows; the cluster goes on meanwhile and nothing in it changes. docs/how-to/disaster.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from brokerd.cluster.blocking import Unreachable
from brokerd.cluster.metadata import MetadataError
from controlplane.disaster import metalog, reach, rows
from controlplane.house.zookeeper import JavaMissing
from controlplane.services.access import import_access


class Command(BaseCommand):
    help = "Make rows for topics, ACLs, credentials, quotas and brokers' settings of the metadata log that have none, or an earlier generation."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--data-dir", type=Path, default=Path("data"), help="the house's folder")
        parser.add_argument(
            "--zookeeper", help="host:port[,host:port..]; default: the house's, started if it does not run"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with reach.reached(options["data_dir"].resolve(), options["zookeeper"]) as zk:
                image = metalog.read_log(zk).image
        except (MetadataError, Unreachable, JavaMissing) as e:
            raise CommandError(str(e)) from e
        if not image.seq:
            raise CommandError("ZooKeeper holds no metadata log; there is nothing to import (`manage.py rebuild`?)")
        call_command("migrate", verbosity=0, interactive=False)
        imported, notes = rows.import_topics(image, who="import")
        access = import_access(image, who="import")
        for note in notes:
            self.stdout.write(f"note: {note}")
        self.stdout.write(
            f"Imported {len(imported)} topics of cluster {image.cluster_id}, read up to entry {image.seq}; "
            f"{access} ACLs, credentials, quotas and brokers' settings. Consumer groups and their offsets are in the brokers' logs: the console shows "
            "them as soon as brokers answer."
        )
