"""`manage.py set_password USER`: set a Kafka user's SCRAM credentials. The password is read from standard input and not stored."""

from __future__ import annotations

import getpass
import sys

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from brokerd.security.scram import ALGORITHMS
from controlplane.services import Rejected
from controlplane.services.access import set_password


class Command(BaseCommand):
    help = "Set a Kafka user's password, read from standard input (SCRAM-SHA-256 and -512; PLAIN takes it too)."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user")

    def handle(self, *_args: str, user: str, **_options: object) -> None:
        password = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
        try:
            with transaction.atomic():
                for mechanism in ALGORITHMS:
                    set_password(user, password, mechanism=mechanism, actor="set_password")
        except Rejected as e:
            raise CommandError(e.reason) from e
        self.stdout.write(f"{user} can authenticate with the new password within a second.")
