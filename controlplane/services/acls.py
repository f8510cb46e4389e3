"""Desired ACL bindings. `access` sends each of them to the brokers."""

from __future__ import annotations

from django.db import IntegrityError, transaction

from controlplane.domain.access import AccessRecordKind, AclOperation, AclPattern, AclPermission, AclResource
from controlplane.domain.audit_operation import AuditOperation
from controlplane.models import Acl
from controlplane.services import access
from controlplane.services.common import Rejected, audited
from weir_common.phrases import sentence

RESOURCE_TYPES, PATTERN_TYPES = tuple(AclResource), tuple(AclPattern)
OPERATIONS, PERMISSIONS = tuple(AclOperation), tuple(AclPermission)


@audited(
    AuditOperation.ACL_CREATE, "{resource_type}:{resource_name}", after=lambda a: {f: a[f] for f in access.ACL_FIELDS}
)
def create_acl(
    *,
    resource_type: str,
    resource_name: str,
    principal: str,
    operation: str,
    permission: str,
    pattern_type: str = "literal",
    host: str = "*",
    actor: str,
    comment: str = "",
) -> Acl:
    """Store one binding. Raises Rejected for an unknown resource type, operation, permission or pattern type, for a principal without a type, and for
    a binding that exists already."""
    after = {
        "resource_type": resource_type,
        "pattern_type": pattern_type,
        "resource_name": resource_name,
        "principal": principal,
        "host": host,
        "operation": operation,
        "permission": permission,
    }
    for field, value, known in (
        ("resource_type", resource_type, RESOURCE_TYPES),
        ("pattern_type", pattern_type, PATTERN_TYPES),
        ("operation", operation, OPERATIONS),
        ("permission", permission, PERMISSIONS),
    ):
        if value not in known:
            raise Rejected(
                sentence(
                    "{value} is not a {field}; use one of {known}.",
                    value=repr(value),
                    field=field.replace("_", " "),
                    known=", ".join(known),
                ),
                field,
            )
    if not resource_name:
        raise Rejected("The resource name is empty; give a name, or * for all.", "resource_name")
    kind, colon, rest = principal.partition(":")
    if not (kind and colon and rest):
        raise Rejected(
            sentence("Principal {principal} has no type; use the format User:alice.", principal=repr(principal)),
            "principal",
        )
    access.require_imported()
    try:
        with transaction.atomic():
            row = Acl.objects.create(created_by=actor, **after)
            key, verb = access.acl_key(after), AuditOperation.ACL_CREATE
            access.put(AccessRecordKind.ACL, key, after, actor=actor, comment=comment, verb=verb)
            return row
    except IntegrityError:
        raise Rejected("This ACL exists already.") from None


def delete_acl(acl_id: int, *, actor: str, comment: str = "") -> None:
    """Remove one binding. Raises Rejected when the binding does not exist (any more)."""
    with transaction.atomic():
        row = Acl.objects.filter(pk=acl_id).first()
        if row is None or not Acl.objects.filter(pk=acl_id).delete()[0]:
            raise Rejected(sentence("ACL {acl_id} does not exist; it may have been deleted already.", acl_id=acl_id))
        before = {
            "resource_type": row.resource_type,
            "pattern_type": row.pattern_type,
            "resource_name": row.resource_name,
            "principal": row.principal,
            "host": row.host,
            "operation": row.operation,
            "permission": row.permission,
        }
        access.put(AccessRecordKind.ACL, access.acl_key(before), None, actor=actor, comment=comment)
