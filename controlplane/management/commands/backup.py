"""`manage.py backup --to DIRECTORY`: back up database and metadata log of a running cluster. Reads only. docs/how-to/back-up-and-restore.md."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from brokerd.cluster.blocking import Unreachable
from brokerd.cluster.metadata import MetadataError
from controlplane.disaster import backups, metalog, reach
from weir_common.java import JavaMissing


class Command(BaseCommand):
    help = "Write a consistent copy of the database and of the metadata log, with a manifest, into a new directory."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--to", type=Path, required=True, help="a directory that does not exist, or is empty")
        parser.add_argument(
            "--data-dir", type=Path, default=settings.WEIR.data_dir, help="data directory of the local cluster"
        )
        parser.add_argument(
            "--zookeeper",
            help="host:port[,host:port..]; default: WEIR_ZOOKEEPER, or the local cluster's, started if it does not run",
        )

    def handle(self, *_args: str, to: Path, data_dir: Path, zookeeper: str | None, **_options: object) -> None:
        try:
            with backups.new_backup_folder(to.resolve()) as folder:
                with reach.zookeeper_connection(data_dir.resolve(), zookeeper) as zk:
                    image = metalog.read_log(zk).image
                if not image.seq:
                    raise backups.BadBackup("ZooKeeper contains no metadata log; there is no cluster to back up")
                backups.write_metadata(folder, image)
                backups.write_database(folder)
                manifest = backups.write_manifest(folder, image)
            backups.read_backup(to.resolve())
        except (backups.BadBackup, MetadataError, Unreachable, JavaMissing, OSError) as e:
            raise CommandError(str(e)) from e
        size = sum(f["bytes"] for f in manifest.files.values())
        self.stdout.write(
            f"Cluster {manifest.cluster_id} at entry {image.seq}: {len(image.topics)} topics, {size} bytes in {to}, read back and verified."
        )
