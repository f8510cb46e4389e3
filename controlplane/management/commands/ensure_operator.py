"""`manage.py ensure_operator`: create or update an operator's login and API token. Idempotent."""

from __future__ import annotations

import os
from pathlib import Path

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser
from rest_framework.authtoken.models import Token

from controlplane.services import external_logins


class Command(BaseCommand):
    help = "Make sure an operator with this name and password exists, and print or write its API token."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--username", required=True)
        parser.add_argument(
            "--password", help="or the environment variable WEIR_PASSWORD, which the process list does not show"
        )
        parser.add_argument("--token-out", help="file (mode 600) to write the token to; otherwise it is printed")

    def handle(
        self, *_args: str, username: str, password: str | None, token_out: str | None, **_options: object
    ) -> None:
        password = password or os.environ.get("WEIR_PASSWORD")
        if not password:
            raise CommandError("No password: give --password or WEIR_PASSWORD.")
        user, _ = get_user_model().objects.get_or_create(username=username)
        if external_logins.is_external(user):
            raise CommandError(
                f"{user.get_username()} logs in through the directory. Choose another name for an account with a password."
            )
        # check_password is slow on purpose; an unchanged password keeps running sessions alive.
        if not (user.has_usable_password() and user.check_password(password)):
            user.set_password(password)
        user.is_active = user.is_staff = user.is_superuser = True
        user.save()
        token, _ = Token.objects.get_or_create(user=user)
        if token_out:
            path = Path(token_out)
            path.touch(mode=0o600)
            path.write_text(token.key)
        else:
            self.stdout.write(token.key)
