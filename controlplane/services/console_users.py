"""Users of the console as accounts: disable and enable. Does not contain: roles (`services.role_bindings`), users of Kafka clients (`services.users`)."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction

from controlplane.domain.audit_operation import AuditOperation
from controlplane.models.change import Outcome
from controlplane.services.common import record

COMMAND = "disable_user"
"""The actor in the audit log: a command on the machine has no user."""


def set_active(user: User, *, is_active: bool) -> None:
    """Enable or disable a user. From the next request on, a disabled user has no sessions and cannot log in, and the user's API tokens are rejected.
    Has no effect if the user is already in this state."""
    if user.is_active == is_active:
        return
    with transaction.atomic():
        user.is_active = is_active
        user.save(update_fields=["is_active"])
        name = user.get_username()
        verb = AuditOperation.CONSOLE_USER_ENABLE if is_active else AuditOperation.CONSOLE_USER_DISABLE
        record(COMMAND, verb, "console_user", name, outcome=Outcome.CONFIRMED)
