"""ACL bindings: wanted here. Law: each is carried to the brokers by `access`."""

from __future__ import annotations

from django.db import IntegrityError, transaction

from controlplane.models import Acl
from controlplane.models.change import Outcome
from controlplane.services import access
from controlplane.services.common import Refused, record, record_refusal

RESOURCE_TYPES = ("topic", "group", "cluster", "transactional_id", "delegation_token", "user")
PATTERN_TYPES = ("literal", "prefixed")
OPERATIONS = (
    "all", "read", "write", "create", "delete", "alter", "describe", "cluster_action", "describe_configs", "alter_configs",
    "idempotent_write", "create_tokens", "describe_tokens", "two_phase_commit",
)  # fmt: skip
PERMISSIONS = ("allow", "deny")


def create_acl(
    *,
    resource_type: str,
    resource_name: str,
    principal: str,
    operation: str,
    permission: str,
    pattern_type: str = "literal",
    host: str = "*",
    who: str,
    why: str = "",
) -> Acl:
    """Store one binding. Raises Refused when a word is unknown, the principal has no type, or it exists already."""
    after = {
        "resource_type": resource_type, "pattern_type": pattern_type, "resource_name": resource_name,
        "principal": principal, "host": host, "operation": operation, "permission": permission,
    }  # fmt: skip
    name = f"{resource_type}:{resource_name}"[:255]
    try:
        for field, value, known in (
            ("resource_type", resource_type, RESOURCE_TYPES),
            ("pattern_type", pattern_type, PATTERN_TYPES),
            ("operation", operation, OPERATIONS),
            ("permission", permission, PERMISSIONS),
        ):
            if value not in known:
                raise Refused(f"{value!r} is no {field.replace('_', ' ')}; use one of {', '.join(known)}.", field)
        if not resource_name:
            raise Refused("The resource has no name; give one, or * for all.", "resource_name")
        kind, colon, rest = principal.partition(":")
        if not (kind and colon and rest):
            raise Refused(f"Principal {principal!r} has no type; write it like User:alice.", "principal")
        try:
            with transaction.atomic():
                row = Acl.objects.create(created_by=who, **after)
                access.put("acl", access.acl_key(after), after, who=who, why=why)
                record(
                    who, "acl.create", "acl", name,
                    why=why, after=after, object_id=f"acl-{row.pk}", outcome=Outcome.CONFIRMED,
                )  # fmt: skip
                return row
        except IntegrityError:
            raise Refused("This binding exists already.") from None
    except Refused as refused:
        record_refusal(who, "acl.create", "acl", name, refused, why=why, after=after)
        raise


def delete_acl(acl_id: int, *, who: str, why: str = "") -> None:
    """Remove one binding. Raises Refused when it is not there (any more)."""
    with transaction.atomic():
        row = Acl.objects.filter(pk=acl_id).first()
        if row is None or not Acl.objects.filter(pk=acl_id).delete()[0]:
            raise Refused(f"There is no binding {acl_id}; somebody may have removed it already.")
        before = {
            "resource_type": row.resource_type, "pattern_type": row.pattern_type, "resource_name": row.resource_name,
            "principal": row.principal, "host": row.host, "operation": row.operation, "permission": row.permission,
        }  # fmt: skip
        access.put("acl", access.acl_key(before), None, who=who, why=why)
        record(
            who, "acl.delete", "acl", f"{row.resource_type}:{row.resource_name}"[:255],
            why=why, before=before, object_id=f"acl-{acl_id}", outcome=Outcome.CONFIRMED,
        )  # fmt: skip
