"""`manage.py set_password USER`: the credentials by which a Kafka user proves who he is. The password comes by standard input and is not kept."""

from __future__ import annotations

import getpass
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from brokerd.access.scram import ALGORITHMS
from controlplane.services import Refused
from controlplane.services.access import set_password


class Command(BaseCommand):
    help = "Set a Kafka user's password, read from standard input (SCRAM-SHA-256 and -512; PLAIN takes it too)."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user")

    def handle(self, *args: Any, **options: Any) -> None:
        password = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
        try:
            with transaction.atomic():
                for mechanism in ALGORITHMS:
                    set_password(options["user"], password, mechanism=mechanism, who="set_password")
        except Refused as e:
            raise CommandError(e.reason) from e
        self.stdout.write(f"{options['user']} can prove who it is within a second.")
