"""`manage.py restore --from FOLDER`: database and metadata log out of a backup, leaders and ISRs out of the brokers' disks.

Law: nothing is written before everything was read and agrees; nothing is replaced without --force. docs/how-to/back-up-and-restore.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from brokerd.cluster.blocking import BlockingStore, Unreachable
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import MetadataError
from controlplane.disaster import backups, metalog, reach, rows
from controlplane.disaster.rebuilt import CannotRebuild, Survey, cluster_of, rebuild
from controlplane.house.zookeeper import JavaMissing


class Command(BaseCommand):
    help = "Put back database and metadata log from a backup; all brokers and controllers must be stopped."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--from", dest="source", type=Path, required=True, help="a folder that `backup` wrote")
        reach.add_arguments(parser)
        parser.add_argument(
            "--force", action="store_true", help="replace the database or the metadata log that is there"
        )
        parser.add_argument("--verify", action="store_true", help="check the backup and change nothing")
        only = parser.add_mutually_exclusive_group()
        only.add_argument("--database-only", action="store_true", help="leave ZooKeeper as it is")
        only.add_argument("--metadata-only", action="store_true", help="leave the database as it is")

    def handle(self, *args: Any, **options: Any) -> None:
        source = options["source"].resolve()
        try:
            manifest, image = backups.opened(source)
            self.stdout.write(
                f"Backup of cluster {manifest.cluster_id} from {manifest.created_at}: entry {image.seq}, {len(image.topics)} topics; checksums hold."
            )
            if not options["verify"]:
                self._restore(source, manifest, image, options)
        except (backups.BadBackup, CannotRebuild, MetadataError, Unreachable, JavaMissing, OSError) as e:
            raise CommandError(str(e)) from e

    def _restore(self, source: Path, manifest: backups.Manifest, image: Image, options: dict[str, Any]) -> None:
        folder = options["data_dir"].resolve()
        with reach.house_at_rest(folder):
            if options["database_only"]:
                self._database(source, manifest, options)
                return
            with reach.reached(folder, options["zookeeper"]) as zk:
                self._both(zk, source, manifest, image, options)

    def _both(
        self, zk: BlockingStore, source: Path, manifest: backups.Manifest, image: Image, options: dict[str, Any]
    ) -> None:
        reach.alone(zk)
        there = metalog.read_log(zk).image
        if there.seq and not options["force"]:
            raise CannotRebuild(
                f"ZooKeeper holds the metadata log of cluster {there.cluster_id} up to entry {there.seq}, the backup that of "
                f"{manifest.cluster_id} up to {image.seq}; say --force to replace it"
            )
        found = reach.surveys(options["data_dir"].resolve(), options["survey"])
        cluster_of(found, image.cluster_id)
        self._build(image, found, there, options)  # what would be refused is refused before the database is replaced
        if not options["metadata_only"]:
            self._database(source, manifest, options)
        rows.add_wished(image, [s.broker_id for s in found])
        new = self._build(image, found, there, options)
        if there.seq:
            metalog.clear(zk)
        notes = [*new.notes, *rows.begin_anew(new.image)]
        metalog.write_log(zk, new.image)
        for note in notes:
            self.stdout.write(f"note: {note}")
        self.stdout.write(
            f"Cluster {new.image.cluster_id} is put back with {len(new.image.topics)} topics; leaders and ISRs are those of the disks of {len(found)} brokers. "
            "Start controllers and brokers."
        )

    @staticmethod
    def _build(image: Image, found: list[Survey], there: Image, options: dict[str, Any]) -> Any:
        return rebuild(
            image, found, chain_hash=uuid4().hex * 2, without=frozenset(options["without"]),
            epochs_seen=there.controller_epoch, seq_seen=there.seq,
        )  # fmt: skip

    def _database(self, source: Path, manifest: backups.Manifest, options: dict[str, Any]) -> None:
        try:
            used = rows.holds_topics()
        except DatabaseError:
            used = False  # no tables, or no database at all
        if used and not options["force"]:
            raise CannotRebuild(
                "the database holds topics already; say --force to replace it (SQLite: it is set aside)"
            )
        aside = backups.put_back_database(source, manifest)
        call_command("migrate", verbosity=0, interactive=False)
        self.stdout.write("The database is put back" + (f"; the one before is {aside}." if aside else "."))
