"""`manage.py backup --to FOLDER`: database and metadata log, while the cluster runs. Law: reads only; docs/how-to/back-up-and-restore.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from brokerd.cluster.blocking import Unreachable
from brokerd.cluster.metadata import MetadataError
from controlplane.disaster import backups, metalog, reach
from controlplane.house.zookeeper import JavaMissing


class Command(BaseCommand):
    help = "Write a consistent copy of the database and of the metadata log, with a manifest, into a new folder."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--to", type=Path, required=True, help="a folder that does not exist, or is empty")
        parser.add_argument("--data-dir", type=Path, default=Path("data"), help="the house's folder")
        parser.add_argument(
            "--zookeeper", help="host:port[,host:port..]; default: the house's, started if it does not run"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with backups.begun(options["to"].resolve()) as folder:
                with reach.reached(options["data_dir"].resolve(), options["zookeeper"]) as zk:
                    image = metalog.read_log(zk).image
                if not image.seq:
                    raise backups.BadBackup("ZooKeeper holds no metadata log; there is no cluster to back up")
                backups.write_metadata(folder, image)
                backups.write_database(folder)
                manifest = backups.write_manifest(folder, image)
            backups.opened(options["to"].resolve())
        except (backups.BadBackup, MetadataError, Unreachable, JavaMissing, OSError) as e:
            raise CommandError(str(e)) from e
        size = sum(f["bytes"] for f in manifest.files.values())
        self.stdout.write(
            f"Cluster {manifest.cluster_id} at entry {image.seq}: {len(image.topics)} topics, {size} bytes in {options['to']}, read back and verified."
        )
