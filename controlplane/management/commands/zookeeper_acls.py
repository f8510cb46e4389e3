"""`manage.py zookeeper_acls own|open`: hand ZooKeeper's nodes over to the user of WEIR_ZOOKEEPER_CONFIG alone, or to everybody (docs/how-to/secure.md).

Law: says how many nodes it has changed; changes nothing but whose they are.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from brokerd.cluster import znodes
from brokerd.cluster.zookeeper import hand_over
from controlplane.client import zookeeper_protection

ROOTS = (
    *dict.fromkeys(f"/{path.split('/')[1]}" for path in znodes.PERSISTENT),
    znodes.CONTROLLER,
    znodes.CONTROLLER_EPOCH,
)


class Command(BaseCommand):
    help = "Make ZooKeeper's nodes one user's alone (own), or everybody's (open), as Kafka's zookeeper-security-migration does."
    requires_system_checks: list[str] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("whose", choices=("own", "open"))
        parser.add_argument("--data-dir", help="the house's folder (default: data)")
        parser.add_argument("--zookeeper", default=settings.HOUSE.zookeeper, help="host:port[,host:port..]")

    def handle(self, *args: Any, **options: Any) -> None:
        protection = zookeeper_protection()
        if protection.user is None:
            raise CommandError(
                "WEIR_ZOOKEEPER_CONFIG names no user (zookeeper.sasl.jaas.config): nobody would own the nodes."
            )
        try:
            count = hand_over(options["zookeeper"], protection, ROOTS, owned=options["whose"] == "own")
        except PermissionError as e:
            raise CommandError(str(e)) from e
        whose = f"{protection.user}'s alone" if options["whose"] == "own" else "everybody's"
        self.stdout.write(f"{count} nodes are {whose}.")
