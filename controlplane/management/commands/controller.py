"""`manage.py controller --id N`: a controller candidate, until SIGTERM. Exits with 0 after it has resigned."""

from __future__ import annotations

import signal
from typing import TypedDict, Unpack

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from brokerd.cluster.zookeeper import end_session
from controlplane.clients.settings import zookeeper_protection, zookeeper_store
from controlplane.devcluster.layout import SESSION_MS


class ControllerOptions(TypedDict):
    id: int
    session_timeout_ms: int
    offsets_partitions: int
    transactions_partitions: int
    share_state_partitions: int


class Command(BaseCommand):
    help = "Run a controller candidate. The owner of the znode /controller is active, the others tail the metadata log."
    # A controller must start without a database, because elections need none.
    requires_migrations_checks = False
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--id", type=int, required=True, help="number of this candidate, unique in the cluster")
        parser.add_argument(
            "--session-timeout-ms", type=int, default=SESSION_MS, help="ZooKeeper session (production: 18000)"
        )
        parser.add_argument("--offsets-partitions", type=int, default=50, help="partitions of __consumer_offsets")
        parser.add_argument("--transactions-partitions", type=int, default=50, help="partitions of __transaction_state")
        parser.add_argument("--share-state-partitions", type=int, default=50, help="partitions of __share_group_state")

    def handle(self, *_args: str, **options: Unpack[ControllerOptions]) -> None:
        from controlplane.controller.database import DatabaseThread
        from controlplane.controller.former_session import SessionFile, end_former
        from controlplane.controller.watchdog import WatchedController

        hosts, timeout_ms = settings.WEIR.zookeeper, options["session_timeout_ms"]
        session_file = SessionFile(settings.WEIR.data_dir / f"controller-{options['id']}.session")
        end_former(session_file, lambda key: end_session(hosts, key, timeout_ms, zookeeper_protection()))
        database = DatabaseThread(
            brokers_expected=settings.WEIR.brokers,
            offsets_partitions=options["offsets_partitions"],
            transactions_partitions=options["transactions_partitions"],
            share_state_partitions=options["share_state_partitions"],
        )
        store = zookeeper_store(hosts, timeout_ms, session_file.write)
        controller = WatchedController(store, f"controller-{options['id']}", database)
        database.image = controller.tailer.image
        controller.watch(max(3.0, timeout_ms / 1000))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: controller.stop())
        controller.run()
