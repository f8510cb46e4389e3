"""Commands that grant or revoke one permission of a user. Idempotent."""

from __future__ import annotations

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.management.base import BaseCommand, CommandError, CommandParser


class PermissionCommand(BaseCommand):
    """`permission`: the codename. `act`: the permitted operation, as a verb phrase of the output."""

    permission: str
    act: str

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--revoke", action="store_true")

    def handle(self, *_args: str, username: str, revoke: bool, **_options: object) -> None:
        user = get_user_model().objects.filter(username=username).first()
        if user is None:
            raise CommandError(f"There is no user {username!r}; create one with ensure_operator.")
        permission = Permission.objects.get(content_type__app_label="controlplane", codename=self.permission)
        (user.user_permissions.remove if revoke else user.user_permissions.add)(permission)
        if revoke and user.is_superuser:
            self.stderr.write(f"{user.get_username()} is an administrator and can still {self.act}.")
