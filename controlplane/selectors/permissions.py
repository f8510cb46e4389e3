"""The permissions of a principal, by the stored ACLs. The brokers' own authorizer decides each case.

Invariant: `authorizer.class.name`, `super.users` and `allow.everyone.if.no.acl.found` are settings of the brokers, which the database does not contain.
They are arguments; `authorizers` reads them from the brokers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from brokerd.authz.acls import CLUSTER_NAME, SUPPORTED, AclEntry, Acls, Decision, Operation, PatternType, Resource
from controlplane.domain.access import AclOperation, AclResource
from controlplane.domain.errors import Rejected
from controlplane.domain.permission import ANY_HOST, PermissionReason
from controlplane.models import Acl
from controlplane.selectors.acls import AclRow, acl_shape
from controlplane.selectors.paging import Page, PageStart, ordered_page
from weir_common.phrases import sentence

OPERATIONS_OF: dict[str, list[str]] = {r.name.lower(): [o.name.lower() for o in SUPPORTED[r]] for r in SUPPORTED}
"""Operations per resource type."""
_LONGER = "\0"
"""A character that is appended to a prefix, so that only this pattern and shorter ones match the name. No resource has such a name."""


@dataclass(frozen=True, slots=True)
class AuthorizerOptions:
    """Settings of the brokers that decide in addition to ACLs. `enabled` False: the brokers have no authorizer and allow every operation."""

    super_users: Sequence[str] = ()
    allow_if_no_acl: bool = False
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class PermissionCheck:
    """`reason`: why the operation is allowed or denied. `acl`: the rule that decides. `acls`: all rules of the resource that concern the principal and the host.
    `other_hosts`: the number of its rules for other hosts."""

    principal: str
    host: str
    resource_type: str
    resource_name: str
    operation: str
    allowed: bool
    reason: str
    acl: AclRow | None
    acls: list[AclRow]
    other_hosts: int


@dataclass(frozen=True, slots=True)
class OperationPermission:
    """The decision about one operation. `acl_id`: the ACL that decides; null: the decision comes from no ACL."""

    operation: str
    allowed: bool
    reason: str
    acl_id: int | None


@dataclass(frozen=True, slots=True)
class EffectivePermissionRow:
    """The resources of one pattern. A resource that more specific rows match has also their permissions and denials."""

    resource_type: str
    pattern_type: str
    resource_name: str
    operations: list[OperationPermission] = field(default_factory=list)

    @property
    def allowed(self) -> list[str]:
        return [o.operation for o in self.operations if o.allowed]

    @property
    def denied(self) -> list[str]:
        """Operations that an ACL denies."""
        return [o.operation for o in self.operations if o.reason == PermissionReason.DENIED_BY_ACL]


PERMISSION_COLUMNS = ("resource_name", "resource_type", "pattern_type")


def check_permission(
    *,
    principal: str,
    resource_type: str,
    operation: str,
    resource_name: str = "",
    host: str = "",
    options: AuthorizerOptions = AuthorizerOptions(),
) -> PermissionCheck:
    """`host` "": only rules for every host apply. Raises Rejected for input that no request of a client can have."""
    principal, host = _principal(principal), host.strip() or ANY_HOST
    if resource_type not in tuple(AclResource):
        raise Rejected(
            sentence(
                "Unknown resource type {resource_type}; use one of {allowed}.",
                resource_type=repr(resource_type),
                allowed=", ".join(AclResource),
            ),
            "resource_type",
        )
    if operation not in OPERATIONS_OF[resource_type]:
        supported = ", ".join(OPERATIONS_OF[resource_type])
        raise Rejected(
            sentence(
                "Resource type {resource_type} has no operation {operation}; use one of {supported}.",
                resource_type=resource_type,
                operation=repr(operation),
                supported=supported,
            ),
            "operation",
        )
    if resource_type == AclResource.CLUSTER:
        resource_name = resource_name or CLUSTER_NAME
    if not resource_name:
        raise Rejected("Give the name of a resource.", "resource_name")
    acls, rows = _stored_acls(options, resource_type)
    resource = Resource[resource_type.upper()]
    decision = acls.explain(principal, host, Operation[operation.upper()], resource, resource_name)
    allowed, reason = _verdict(decision, options)
    rule = decision.acl if options.enabled else None
    about = acls.matching_acls(resource, resource_name)
    concerning = [a for a in about if a.concerns(principal, host)]
    mine = [a for a in about if a.concerns(principal, a.host)]
    return PermissionCheck(
        principal=principal,
        host=host,
        resource_type=resource_type,
        resource_name=resource_name,
        operation=operation,
        allowed=allowed,
        reason=reason,
        acl=None if rule is None else acl_shape(rows[rule]),
        acls=[acl_shape(rows[a]) for a in concerning],
        other_hosts=len(mine) - len(concerning),
    )


def permission_list(
    *,
    principal: str,
    host: str = "",
    query: str = "",
    resource_type: str = "",
    sort: str = "resource_name",
    page: PageStart = 1,
    per_page: int = 50,
    options: AuthorizerOptions = AuthorizerOptions(),
) -> Page[EffectivePermissionRow]:
    """The effective permissions of a principal: one row for each resource pattern whose ACLs concern it. Raises Rejected."""
    principal, host = _principal(principal), host.strip() or ANY_HOST
    acls, rows = _stored_acls(options, resource_type)
    patterns = {
        (a.resource, a.pattern, a.name)
        for a in acls.all
        if a.concerns(principal, host) and query.lower() in a.name.lower()
    }
    column = sort.lstrip("-")
    if column not in PERMISSION_COLUMNS:
        sort = column = PERMISSION_COLUMNS[0]
    keys = {
        "resource_name": lambda p: p[2],
        "resource_type": lambda p: p[0].name,
        "pattern_type": lambda p: p[1].name,
    }
    order = [(value, sort.startswith("-")) for value in (keys.pop(column), *keys.values())]
    shown, total, window = ordered_page(patterns, order, page=page, per_page=per_page)
    found = [_effective(acls, rows, principal, host, options, *p) for p in shown]
    return Page(found, total, window, sort, query)


def _effective(
    acls: Acls,
    rows: dict[AclEntry, Acl],
    principal: str,
    host: str,
    options: AuthorizerOptions,
    resource: Resource,
    pattern: PatternType,
    name: str,
) -> EffectivePermissionRow:
    example = name + _LONGER if pattern is PatternType.PREFIXED else name
    operations = []
    for operation in SUPPORTED[resource]:
        decision = acls.explain(principal, host, operation, resource, example)
        allowed, reason = _verdict(decision, options)
        acl_id = None if decision.acl is None or not options.enabled else rows[decision.acl].pk
        operations.append(OperationPermission(operation.name.lower(), allowed, reason, acl_id))
    return EffectivePermissionRow(resource.name.lower(), pattern.name.lower(), name, operations)


def _principal(text: str) -> str:
    kind, colon, name = text.strip().partition(":")
    if not (kind and colon and name):
        raise Rejected(
            sentence("Principal {value} has no type; use the format User:alice.", value=repr(text)), "principal"
        )
    return text.strip()


def _stored_acls(options: AuthorizerOptions, resource_type: str = "") -> tuple[Acls, dict[AclEntry, Acl]]:
    """The stored ACLs, of one resource type or of all, and the row of each."""
    found = Acl.objects.order_by("pk")
    if resource_type:
        found = found.filter(resource_type=resource_type)
    rows = {AclEntry.from_json(_fields(row)): row for row in found}
    return Acls(rows, options.super_users, options.allow_if_no_acl), rows


def _fields(row: Acl) -> dict[str, str]:
    names = ("resource_type", "pattern_type", "resource_name", "principal", "host", "operation", "permission")
    return {name: str(getattr(row, name)) for name in names}


def _verdict(decision: Decision, options: AuthorizerOptions) -> tuple[bool, str]:
    """(allowed, reason) of an evaluation of the ACLs, under the settings of the brokers."""
    if not options.enabled:
        return True, PermissionReason.NO_AUTHORIZER.value
    return decision.allowed, PermissionReason[decision.reason.name].value


def operations() -> list[str]:
    """All operations that a request can have."""
    known = {name for names in OPERATIONS_OF.values() for name in names}
    return [o for o in AclOperation if o in known]
