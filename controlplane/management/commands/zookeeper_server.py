"""`manage.py zookeeper_server --config zoo.cfg`: a server of a ZooKeeper ensemble, from the jars of the pyspark package. The process becomes the JVM, so signals and
the exit code are ZooKeeper's own. `log4j2.properties` next to the config configures its logging, and `jaas.conf` there, if it exists, has its users."""

from __future__ import annotations

import os
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.devcluster.zookeeper import server_command
from weir_common.java import JavaMissing

OPTIONS = ("-XX:+ExitOnOutOfMemoryError",)
"""A server without memory ends, and its service manager starts it again."""


class Command(BaseCommand):
    help = "Run a ZooKeeper server with these config, in the foreground."
    # ZooKeeper starts before the database.
    requires_migrations_checks = False
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--config", required=True, type=Path, help="zoo.cfg; next to it log4j2.properties")
        parser.add_argument("--heap", default="512m", help="maximum heap of the JVM (-Xmx)")
        parser.add_argument(
            "--jaas",
            type=Path,
            help="file with the users that may connect (java.security.auth.login.config); default: jaas.conf next to zoo.cfg, if it exists",
        )

    def handle(self, *_args: str, config: Path, heap: str, jaas: Path | None, **_options: object) -> None:
        if not config.is_file():
            raise CommandError(f"There is no file {config}; --config must name zoo.cfg.")
        users: Path | None = jaas or config.resolve().with_name("jaas.conf")
        if jaas is None and users is not None and not users.is_file():
            users = None
        # In FIPS mode, the default, ZooKeeper has no DIGEST-MD5.
        java_options = (f"-Djava.security.auth.login.config={users}", "-Dzookeeper.fips-mode=false") if users else ()
        try:
            command = server_command(config.resolve(), *OPTIONS, *java_options, heap=f"-Xmx{heap}")
        except JavaMissing as e:
            raise CommandError(str(e)) from e
        os.execv(command[0], command)
