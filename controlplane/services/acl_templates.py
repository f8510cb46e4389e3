"""ACLs of a template: preview, and creation of the missing ACLs, all or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db import transaction

from controlplane.domain.access import AclPattern, AclPermission
from controlplane.domain.acl_templates import AclTemplate, MissingValue, TemplateField, bindings
from controlplane.models import Acl
from controlplane.services import acls
from controlplane.services.common import Rejected


@dataclass(frozen=True, slots=True)
class TemplateAcl:
    """An ACL of a template. If `exists`, it is already stored and stays unchanged."""

    resource_type: str
    pattern_type: str
    resource_name: str
    principal: str
    host: str
    operation: str
    permission: str
    exists: bool


def preview_template(
    template: AclTemplate,
    values: Mapping[TemplateField, str],
    *,
    principal: str,
    host: str = "*",
    pattern_type: AclPattern = AclPattern.LITERAL,
) -> list[TemplateAcl]:
    """The ACLs of the template. Raises Rejected with the field for a missing value."""
    try:
        requested = bindings(template, values, pattern_type)
    except MissingValue as e:
        raise Rejected(str(e), e.field.value) from None
    found = []
    for b in requested:
        fields = {
            "resource_type": b.resource_type.value,
            "pattern_type": b.pattern_type.value,
            "resource_name": b.resource_name,
            "principal": principal,
            "host": host,
            "operation": b.operation.value,
            "permission": AclPermission.ALLOW.value,
        }
        found.append(TemplateAcl(**fields, exists=Acl.objects.filter(**fields).exists()))
    return found


def apply_template(
    template: AclTemplate,
    values: Mapping[TemplateField, str],
    *,
    principal: str,
    host: str = "*",
    pattern_type: AclPattern = AclPattern.LITERAL,
    actor: str,
    comment: str = "",
) -> list[TemplateAcl]:
    """Create the ACLs that do not exist. Returns every ACL of the template; `exists` is true for the ones that existed before. If it raises Rejected,
    no ACL was created."""
    with transaction.atomic():
        requested = preview_template(template, values, principal=principal, host=host, pattern_type=pattern_type)
        for acl in requested:
            if not acl.exists:
                acls.create_acl(
                    resource_type=acl.resource_type,
                    resource_name=acl.resource_name,
                    pattern_type=acl.pattern_type,
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission=acl.permission,
                    actor=actor,
                    comment=comment,
                )
    return requested
