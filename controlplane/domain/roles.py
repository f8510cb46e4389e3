"""Roles for resources: what a role permits, and which resources a binding has. Pure.

A binding gives a role to a user or to a Django group, for the resources of one type whose name matches a pattern. Roles only add rights: nothing is
denied by a binding. Does not contain: the rights for the whole cluster, which are a flag and two permissions of Django's users
(`controlplane.services.authorization`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from controlplane.domain.access import AclPattern
from controlplane.domain.errors import Rejected
from weir_common.phrases import sentence

NAME_CHARS_MAX = 249
"""Maximum number of characters of a name or prefix, as of a topic's name. Names of groups that are longer need the cluster-wide role."""
WILDCARD = "*"
"""A literal name that matches every resource, as in Kafka's ACLs."""
CLUSTER_NAME = "kafka-cluster"
ALL_BROKERS = "all"
"""Name of what concerns all brokers: only the literal name * matches it."""


class RoleResource(StrEnum):
    TOPIC = "topic"
    GROUP = "group"
    USER = "user"
    """A SCRAM user, by its name."""
    BROKER = "broker"
    """A broker, named by its id. A setting of all brokers has the name ALL_BROKERS."""
    ROUTE = "route"
    QUOTA = "quota"
    """A quota, named by the text of its entity that lists show: `user alice`, `user alice, client-id c`."""
    ACL = "acl"
    """An ACL, named by its resource (`acl_name`)."""
    PLAN = "plan"
    """A saved plan, by its name."""
    CLUSTER = "cluster"
    """The cluster as a whole. Its only name is that of Kafka's ACLs, `CLUSTER_NAME`."""


class Access(StrEnum):
    """A kind of access to a resource. `VIEW`: see it and its metadata in lists and on pages, without its records. `OPERATE`: every change except
    to write records."""

    VIEW = "view"
    OPERATE = "operate"
    READ_RECORDS = "read_records"
    PRODUCE_RECORDS = "produce_records"


class AccessRole(StrEnum):
    """Each role includes `VIEWER`, and `OWNER` has the rights of all others."""

    VIEWER = "viewer"
    READER = "reader"
    WRITER = "writer"
    OPERATOR = "operator"
    OWNER = "owner"


PERMITS: dict[AccessRole, frozenset[Access]] = {
    AccessRole.VIEWER: frozenset({Access.VIEW}),
    AccessRole.READER: frozenset({Access.VIEW, Access.READ_RECORDS}),
    AccessRole.WRITER: frozenset({Access.VIEW, Access.PRODUCE_RECORDS}),
    AccessRole.OPERATOR: frozenset({Access.VIEW, Access.OPERATE}),
    AccessRole.OWNER: frozenset(Access),
}
ROLE_FOR: dict[Access, AccessRole] = {
    Access.VIEW: AccessRole.VIEWER,
    Access.OPERATE: AccessRole.OPERATOR,
    Access.READ_RECORDS: AccessRole.READER,
    Access.PRODUCE_RECORDS: AccessRole.WRITER,
}
"""The smallest role that permits an access. A rejection names it."""
ROLES_OF: dict[RoleResource, tuple[AccessRole, ...]] = {
    RoleResource.TOPIC: tuple(AccessRole),
    RoleResource.GROUP: (AccessRole.VIEWER, AccessRole.OPERATOR, AccessRole.OWNER),
    RoleResource.USER: (AccessRole.VIEWER, AccessRole.OPERATOR, AccessRole.OWNER),
    **dict.fromkeys(
        (RoleResource.BROKER, RoleResource.ROUTE, RoleResource.QUOTA, RoleResource.ACL),
        (AccessRole.VIEWER, AccessRole.OPERATOR, AccessRole.OWNER),
    ),
    RoleResource.PLAN: (AccessRole.OPERATOR, AccessRole.OWNER),
    RoleResource.CLUSTER: (AccessRole.VIEWER,),
}
"""Roles of a resource type. Only topics have records. The operator of the whole cluster is the flag `is_staff`."""
FILTERED = frozenset(RoleResource) - {RoleResource.PLAN, RoleResource.CLUSTER}
"""Types whose lists can be limited to what a user may see. Pages about others show the whole cluster: a saved plan names topics of the whole cluster."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The role and the resources of a binding."""

    role: AccessRole
    resource_type: RoleResource
    pattern_type: AclPattern
    resource_name: str

    def matches(self, resource_type: RoleResource, name: str) -> bool:
        if resource_type is not self.resource_type:
            return False
        if self.pattern_type is AclPattern.PREFIXED:
            return name.startswith(self.resource_name)
        return self.resource_name in (WILDCARD, name)

    def permits(self, access: Access, resource_type: RoleResource, name: str) -> bool:
        return access in PERMITS[self.role] and self.matches(resource_type, name)


def acl_name(resource_type: str, resource_name: str, pattern_type: str) -> str:
    """Name of an ACL for role bindings: `topic:orders`, and `topic:orders*` for the prefix `orders`, so that a role for the ACLs of one topic permits no ACL
    of a prefix."""
    return f"{resource_type}:{resource_name}{WILDCARD if pattern_type == AclPattern.PREFIXED else ''}"


def denied_names(
    grants: Sequence[Grant], access: Access, resource_type: RoleResource, names: Iterable[str]
) -> list[str]:
    """The names for which none of the grants permits the access, in their order."""
    return [n for n in names if not any(g.permits(access, resource_type, n) for g in grants)]


def check_grant(role: str, resource_type: str, pattern_type: str, resource_name: str) -> Grant:
    """The grant of these words. Raises Rejected."""
    if resource_type not in tuple(RoleResource):
        raise Rejected(
            sentence(
                "Unknown resource type {resource_type}; use {allowed}.",
                resource_type=repr(resource_type),
                allowed=", ".join(RoleResource),
            ),
            "resource_type",
        )
    resource = RoleResource(resource_type)
    if role not in ROLES_OF[resource]:
        raise Rejected(
            sentence(
                "A {resource} has no role {role}; use {allowed}.",
                resource=resource,
                role=repr(role),
                allowed=", ".join(ROLES_OF[resource]),
            ),
            "role",
        )
    if pattern_type not in tuple(AclPattern):
        raise Rejected(
            sentence(
                "Unknown pattern type {pattern_type}; use {allowed}.",
                pattern_type=repr(pattern_type),
                allowed=", ".join(AclPattern),
            ),
            "pattern_type",
        )
    if not resource_name:
        raise Rejected("Give a name, a prefix, or * for all names.", "resource_name")
    if len(resource_name) > NAME_CHARS_MAX:
        raise Rejected(sentence("A name has at most {max} characters.", max=NAME_CHARS_MAX), "resource_name")
    pattern = AclPattern(pattern_type)
    if resource is RoleResource.CLUSTER and (pattern, resource_name) != (AclPattern.LITERAL, CLUSTER_NAME):
        raise Rejected(
            sentence("The only name of the cluster is the literal {name}.", name=CLUSTER_NAME), "resource_name"
        )
    names_a_broker = resource_name == WILDCARD or (resource_name.isascii() and resource_name.isdigit())
    if resource is RoleResource.BROKER and not (pattern is AclPattern.LITERAL and names_a_broker):
        raise Rejected("Name a broker by its id, or * for all brokers, with the pattern type literal.", "resource_name")
    if pattern is AclPattern.PREFIXED and WILDCARD in resource_name:
        raise Rejected("A prefix has no *: every name that begins with it matches.", "resource_name")
    return Grant(AccessRole(role), resource, pattern, resource_name)
