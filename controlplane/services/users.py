"""SCRAM users: create, change the password, delete. `access` sends the credentials to the brokers.

Invariants: a password is converted to keys in the call that receives it. Neither it nor its keys are in a change row, an error or a log line. All
credentials of a user change in one transaction.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from django.db import IntegrityError, transaction

from controlplane.domain import scram_users as rules
from controlplane.domain.access import AccessRecordKind
from controlplane.domain.audit_operation import AuditOperation
from controlplane.models import AccessEntry
from controlplane.services import access
from controlplane.services.common import AlreadyExists, Rejected, audited
from weir_common.phrases import sentence

PASSWORD_BYTES = 24
"""Random bytes of a generated password: 32 characters."""


@audited(AuditOperation.SCRAM_CREATE, "{name}")
def create_user(
    name: str,
    *,
    actor: str,
    password: str | None = None,
    mechanisms: Sequence[str] = rules.MECHANISMS,
    iterations: int = rules.ITERATIONS_MIN,
    comment: str = "",
) -> str | None:
    """Create a user. Returns the generated password if `password` is None; nothing can show it again. Raises Rejected, and AlreadyExists
    for a user that has a credential."""
    for field, problem in (
        ("name", rules.name_problem(name)),
        ("mechanisms", rules.mechanisms_problem(mechanisms)),
        ("iterations", rules.iterations_problem(iterations)),
        ("password", None if password is None else rules.password_problem(password)),
    ):
        if problem is not None:
            raise Rejected(problem, field)
    access.require_imported()
    chosen = secrets.token_urlsafe(PASSWORD_BYTES) if password is None else password
    try:
        with transaction.atomic():
            if credentials(name):
                raise AlreadyExists(
                    sentence("User {name} exists already. Change its password instead.", name=repr(name)), "name"
                )
            for mechanism in dict.fromkeys(mechanisms):
                access.set_password(
                    name,
                    chosen,
                    mechanism=mechanism,
                    iterations=iterations,
                    actor=actor,
                    comment=comment,
                    verb=AuditOperation.SCRAM_CREATE,
                )
    except IntegrityError:
        raise AlreadyExists(sentence("User {name} was created at the same time.", name=repr(name)), "name") from None
    return chosen if password is None else None


@audited(AuditOperation.SCRAM_ALTER, "{name}")
def change_password(name: str, *, actor: str, password: str | None = None, comment: str = "") -> str | None:
    """Change the password of all mechanisms of a user. Returns the generated password if `password` is None. Raises Rejected."""
    if password is not None and (problem := rules.password_problem(password)) is not None:
        raise Rejected(problem, "password")
    chosen = secrets.token_urlsafe(PASSWORD_BYTES) if password is None else password
    with transaction.atomic():
        for row in _credentials_of(name):
            mechanism = row.key.partition(":")[0]
            iterations = int((row.value or {})["iterations"])
            access.set_password(
                name,
                chosen,
                mechanism=mechanism,
                iterations=iterations,
                actor=actor,
                comment=comment,
                verb=AuditOperation.SCRAM_ALTER,
            )
    return chosen if password is None else None


@audited(AuditOperation.SCRAM_DELETE, "{name}")
def delete_user(name: str, *, actor: str, comment: str = "") -> None:
    """Delete all credentials of a user. ACLs and quotas that name it stay. Raises Rejected."""
    with transaction.atomic():
        for row in _credentials_of(name):
            access.put(
                AccessRecordKind.SCRAM, row.key, None, actor=actor, comment=comment, verb=AuditOperation.SCRAM_DELETE
            )


def credentials(name: str) -> list[AccessEntry]:
    """The stored credentials of a user; empty for an unknown one."""
    keys = [rules.credential_key(mechanism, name) for mechanism in rules.MECHANISMS]
    return list(
        AccessEntry.objects.filter(kind=AccessRecordKind.SCRAM, key__in=keys, value__isnull=False).order_by("key")
    )


def _credentials_of(name: str) -> list[AccessEntry]:
    rows = credentials(name)
    if not rows:
        raise Rejected(sentence("There is no SCRAM user {name}; it may have been deleted already.", name=repr(name)))
    return rows
