"""`manage.py rebuild`: ZooKeeper's data is lost; the metadata log begins anew from the database and the brokers' disks.

Law: nothing is written before everything was read and agrees. docs/how-to/disaster.md.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from brokerd.cluster.blocking import Unreachable
from brokerd.cluster.levels import LEVEL_MAX, LEVELS
from brokerd.cluster.metadata import MetadataError
from controlplane.disaster import metalog, reach, rows
from controlplane.disaster.rebuilt import CannotRebuild, cluster_of, rebuild
from controlplane.house.zookeeper import JavaMissing


class Command(BaseCommand):
    help = "Write the metadata log anew from the database and the disks of all brokers, which must be stopped."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        reach.add_arguments(parser)
        parser.add_argument(
            "--level", type=int, choices=list(LEVELS), default=LEVEL_MAX,
            help="of the new metadata log; lower only if brokers of an older program are to come back (default: the highest)",
        )  # fmt: skip
        parser.add_argument("--force", action="store_true", help="ZooKeeper holds a metadata log; it is removed first")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._rebuild(options)
        except (CannotRebuild, MetadataError, Unreachable, JavaMissing) as e:
            raise CommandError(str(e)) from e

    def _rebuild(self, options: dict[str, Any]) -> None:
        folder = options["data_dir"].resolve()
        with reach.house_at_rest(folder), reach.reached(folder, options["zookeeper"]) as zk:
            reach.alone(zk)
            there = metalog.read_log(zk).image
            if there.seq and not options["force"]:
                raise CannotRebuild(
                    f"ZooKeeper holds the metadata log of cluster {there.cluster_id}, up to entry {there.seq}; if it is that of a new, "
                    "empty cluster that was begun after the loss, say --force, and it is removed"
                )
            call_command("migrate", verbosity=0, interactive=False)
            found = reach.surveys(folder, options["survey"])
            known = rows.known_image(cluster_of(found, ""), [s.broker_id for s in found])
            known.metadata_version = options["level"]
            new = rebuild(
                known, found, chain_hash=uuid4().hex * 2, without=frozenset(options["without"]),
                epochs_seen=there.controller_epoch, seq_seen=there.seq,
            )  # fmt: skip
            if there.seq:
                metalog.clear(zk)
            notes = [*new.notes, *rows.begin_anew(new.image)]
            metalog.write_log(zk, new.image)
        for note in notes:
            self.stdout.write(f"note: {note}")
        partitions = sum(1 for _ in new.image.each_partition())
        self.stdout.write(
            f"Cluster {new.image.cluster_id}: {len(new.image.topics)} topics, {partitions} partitions, from the disks of "
            f"{len(found)} brokers. Start controllers and brokers."
        )
