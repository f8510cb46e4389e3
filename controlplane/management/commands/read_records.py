"""`manage.py read_records USER`: grant or revoke a user's permission to read records of topics. Idempotent."""

from __future__ import annotations

from controlplane.management.permission_command import PermissionCommand


class Command(PermissionCommand):
    help = "Grant a user the permission to read records of topics in the console and by REST (--revoke removes it)."
    permission, act = "read_records", "read records"
