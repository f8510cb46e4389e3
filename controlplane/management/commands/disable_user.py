"""`manage.py disable_user`: end the sessions and API tokens of a console user now, or enable the user again. Idempotent."""

from __future__ import annotations

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.services import console_users


class Command(BaseCommand):
    help = (
        "Reject the sessions, logins and API tokens of a console user, from the next request on. Rows of the user stay."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--enable", action="store_true", help="permit them again")

    def handle(self, *_args: str, username: str, enable: bool, **_options: object) -> None:
        user = get_user_model().objects.filter(username=username).first()
        if user is None:
            raise CommandError(f"There is no user {username!r} of the console.")
        console_users.set_active(user, is_active=enable)
