"""`manage.py zookeeper_acls own|open`: restrict znodes to the user of WEIR_ZOOKEEPER_CONFIG, or open them (docs/how-to/secure-a-cluster.md).

Changes only ACLs, and prints the number of changed nodes.
"""

from __future__ import annotations

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from brokerd.cluster import znodes
from brokerd.cluster.zookeeper import hand_over
from controlplane.clients.settings import zookeeper_protection

ROOTS = (
    *dict.fromkeys(f"/{path.split('/')[1]}" for path in znodes.PERSISTENT),
    znodes.CONTROLLER,
    znodes.CONTROLLER_EPOCH,
)


class Command(BaseCommand):
    help = "Restrict the ACLs of all znodes to one user (own), or open them (open), like Kafka's zookeeper-security-migration."
    requires_system_checks: list[str] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("access", choices=("own", "open"))
        parser.add_argument("--data-dir", help="data directory of the local cluster (default: data)")
        parser.add_argument("--zookeeper", default=settings.WEIR.zookeeper, help="host:port[,host:port..]")

    def handle(self, *_args: str, access: str, zookeeper: str, **_options: object) -> None:
        protection = zookeeper_protection()
        if protection.user is None:
            raise CommandError(
                "WEIR_ZOOKEEPER_CONFIG contains no user (zookeeper.sasl.jaas.config), so the nodes would have no owner."
            )
        try:
            count = hand_over(zookeeper, protection, ROOTS, owned=access == "own")
        except PermissionError as e:
            raise CommandError(str(e)) from e
        state = f"restricted to {protection.user}" if access == "own" else "open to all clients"
        self.stdout.write(f"{count} nodes are {state}.")
