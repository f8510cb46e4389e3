"""`manage.py restore --from DIRECTORY`: restore database and metadata log from a backup, leaders and ISRs from the brokers' disks.

Invariants: nothing is written before all input is read and consistent. Nothing is replaced without --force.
docs/how-to/back-up-and-restore.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Unpack
from uuid import uuid4

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from brokerd.cluster.blocking import BlockingStore, Unreachable
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import MetadataError
from controlplane.disaster import backups, metalog, reach, rows
from controlplane.disaster.rebuilt import CannotRebuild, LogDirsInspection, RebuiltImage, cluster_of, rebuild
from weir_common.java import JavaMissing


class RestoreOptions(reach.NewLogOptions):
    source: Path
    force: bool
    verify: bool
    database_only: bool
    metadata_only: bool


class Command(BaseCommand):
    help = "Restore database and metadata log from a backup. All brokers and controllers must be stopped."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--from", dest="source", type=Path, required=True, help="a directory that `backup` wrote")
        reach.add_arguments(parser)
        parser.add_argument("--force", action="store_true", help="replace an existing database or metadata log")
        parser.add_argument("--verify", action="store_true", help="check the backup and change nothing")
        only = parser.add_mutually_exclusive_group()
        only.add_argument("--database-only", action="store_true", help="leave ZooKeeper as it is")
        only.add_argument("--metadata-only", action="store_true", help="leave the database as it is")

    def handle(self, *_args: str, **options: Unpack[RestoreOptions]) -> None:
        source = options["source"].resolve()
        try:
            manifest, image = backups.read_backup(source)
            self.stdout.write(
                f"Backup of cluster {manifest.cluster_id} from {manifest.created_at}: entry {image.seq}, {len(image.topics)} topics; checksums are correct."
            )
            if not options["verify"]:
                self._restore(source, manifest, image, options)
        except (backups.BadBackup, CannotRebuild, MetadataError, Unreachable, JavaMissing, OSError) as e:
            raise CommandError(str(e)) from e

    def _restore(self, source: Path, manifest: backups.Manifest, image: Image, options: RestoreOptions) -> None:
        folder = options["data_dir"].resolve()
        with reach.cluster_lock(folder):
            if options["database_only"]:
                self._database(source, manifest, options)
                return
            with reach.zookeeper_connection(folder, options["zookeeper"]) as zk:
                self._restore_all(zk, source, manifest, image, options)

    def _restore_all(
        self, zk: BlockingStore, source: Path, manifest: backups.Manifest, image: Image, options: RestoreOptions
    ) -> None:
        reach.require_stopped(zk)
        there = metalog.read_log(zk).image
        if there.seq and not options["force"]:
            raise CannotRebuild(
                f"ZooKeeper contains the metadata log of cluster {there.cluster_id} up to entry {there.seq}, the backup that of "
                f"{manifest.cluster_id} up to {image.seq}; use --force to replace it"
            )
        found = reach.inspections(options["data_dir"].resolve(), options["inspection"])
        cluster_of(found, image.cluster_id)
        self._build(image, found, there, options)  # fails before the database is replaced
        if not options["metadata_only"]:
            self._database(source, manifest, options)
        rows.add_applied_rows(image, [s.broker_id for s in found])
        new = self._build(image, found, there, options)
        if there.seq:
            metalog.clear(zk)
        notes = [*new.notes, *rows.reset_rows(new.image)]
        metalog.write_log(zk, new.image)
        for note in notes:
            self.stdout.write(f"note: {note}")
        self.stdout.write(
            f"Cluster {new.image.cluster_id} is restored with {len(new.image.topics)} topics; leaders and ISRs are from the disks of {len(found)} brokers. "
            "Start controllers and brokers."
        )

    @staticmethod
    def _build(image: Image, backup: list[LogDirsInspection], there: Image, options: RestoreOptions) -> RebuiltImage:
        return rebuild(
            image,
            backup,
            chain_hash=uuid4().hex * 2,
            without=frozenset(options["without"]),
            older=frozenset(options["older"]),
            epochs_seen=there.controller_epoch,
            seq_seen=there.seq,
        )

    def _database(self, source: Path, manifest: backups.Manifest, options: RestoreOptions) -> None:
        try:
            used = rows.holds_topics()
        except DatabaseError:
            used = False  # no tables, or no database at all
        if used and not options["force"]:
            raise CannotRebuild(
                "the database contains topics; use --force to replace it (SQLite: the old file is renamed)"
            )
        aside = backups.restore_database(source, manifest)
        call_command("migrate", verbosity=0, interactive=False)
        self.stdout.write("The database is restored" + (f"; the previous one is {aside}." if aside else "."))
