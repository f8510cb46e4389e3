"""`manage.py produce_records USER`: grant or revoke a user's permission to produce and copy records. Idempotent."""

from __future__ import annotations

from controlplane.management.permission_command import PermissionCommand


class Command(PermissionCommand):
    help = "Grant a user the permission to produce and copy records in the console and by REST (--revoke removes it)."
    permission, act = "produce_records", "produce records"
