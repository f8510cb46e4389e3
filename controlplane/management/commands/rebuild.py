"""`manage.py rebuild`: after the loss of ZooKeeper's data, rebuild the metadata log from the database and the brokers' disks.

Invariant: nothing is written before all input is read and consistent. docs/how-to/disaster.md.
"""

from __future__ import annotations

from typing import Unpack
from uuid import uuid4

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from brokerd.cluster.blocking import Unreachable
from brokerd.cluster.levels import LEVEL_MAX, LEVELS
from brokerd.cluster.metadata import MetadataError
from controlplane.disaster import metalog, reach, rows
from controlplane.disaster.rebuilt import CannotRebuild, cluster_of, rebuild
from weir_common.java import JavaMissing


class RebuildOptions(reach.NewLogOptions):
    level: int
    force: bool


class Command(BaseCommand):
    help = "Rebuild the metadata log from the database and the disks of all brokers. All brokers must be stopped."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        reach.add_arguments(parser)
        parser.add_argument(
            "--level",
            type=int,
            choices=list(LEVELS),
            default=LEVEL_MAX,
            help="metadata level of the new log; lower only for brokers of an older version (default: the highest)",
        )
        parser.add_argument("--force", action="store_true", help="delete an existing metadata log first")

    def handle(self, *_args: str, **options: Unpack[RebuildOptions]) -> None:
        try:
            self._rebuild(options)
        except (CannotRebuild, MetadataError, Unreachable, JavaMissing) as e:
            raise CommandError(str(e)) from e

    def _rebuild(self, options: RebuildOptions) -> None:
        folder = options["data_dir"].resolve()
        with reach.cluster_lock(folder), reach.zookeeper_connection(folder, options["zookeeper"]) as zk:
            reach.require_stopped(zk)
            there = metalog.read_log(zk).image
            if there.seq and not options["force"]:
                raise CannotRebuild(
                    f"ZooKeeper contains the metadata log of cluster {there.cluster_id}, up to entry {there.seq}; if this is a new, "
                    "empty cluster that was created after the loss, use --force to delete it"
                )
            call_command("migrate", verbosity=0, interactive=False)
            found = reach.inspections(folder, options["inspection"])
            known = rows.known_image(cluster_of(found, ""), [s.broker_id for s in found])
            known.metadata_version = options["level"]
            new = rebuild(
                known,
                found,
                chain_hash=uuid4().hex * 2,
                without=frozenset(options["without"]),
                older=frozenset(options["older"]),
                epochs_seen=there.controller_epoch,
                seq_seen=there.seq,
            )
            if there.seq:
                metalog.clear(zk)
            notes = [*new.notes, *rows.reset_rows(new.image)]
            metalog.write_log(zk, new.image)
        for note in notes:
            self.stdout.write(f"note: {note}")
        partitions = sum(1 for _ in new.image.each_partition())
        self.stdout.write(
            f"Cluster {new.image.cluster_id}: {len(new.image.topics)} topics, {partitions} partitions, from the disks of "
            f"{len(found)} brokers. Start controllers and brokers."
        )
