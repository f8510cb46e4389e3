"""Access control lists with the rules of Kafka's StandardAuthorizer. Pure: a set of ACLs in, decisions out.

Invariants: a denial overrides every permission. Super users may do everything. A resource without ACLs is denied unless
`allow.everyone.if.no.acl.found` is set. docs/acl-cases.md is the table of cases, which a test checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple, TypeVar

from brokerd.cluster.access_values import AccessValue, invalid, text_of

DECISIONS_MAX = 50_000
"""Maximum number of decisions that are cached between two changes of ACLs."""
CLUSTER_NAME = "kafka-cluster"
WILDCARD = "*"
ANY_PRINCIPAL = "User:*"


class Resource(IntEnum):
    UNKNOWN, ANY, TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = range(8)


class PatternType(IntEnum):
    UNKNOWN, ANY, MATCH, LITERAL, PREFIXED = range(5)


class Operation(IntEnum):
    UNKNOWN, ANY, ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = range(9)
    (
        CLUSTER_ACTION,
        DESCRIBE_CONFIGS,
        ALTER_CONFIGS,
        IDEMPOTENT_WRITE,
        CREATE_TOKENS,
        DESCRIBE_TOKENS,
        TWO_PHASE_COMMIT,
    ) = range(9, 16)


class Permission(IntEnum):
    UNKNOWN, ANY, DENY, ALLOW = range(4)


O = Operation  # noqa: E741
SUPPORTED: Mapping[Resource, tuple[Operation, ...]] = {
    Resource.TOPIC: (O.READ, O.WRITE, O.CREATE, O.DELETE, O.ALTER, O.DESCRIBE, O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS),
    Resource.GROUP: (O.READ, O.DELETE, O.DESCRIBE, O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS),
    Resource.CLUSTER: (
        O.CREATE,
        O.CLUSTER_ACTION,
        O.DESCRIBE_CONFIGS,
        O.ALTER_CONFIGS,
        O.IDEMPOTENT_WRITE,
        O.ALTER,
        O.DESCRIBE,
    ),
    Resource.TRANSACTIONAL_ID: (O.DESCRIBE, O.WRITE, O.TWO_PHASE_COMMIT),
    Resource.DELEGATION_TOKEN: (O.DESCRIBE,),
    Resource.USER: (O.CREATE_TOKENS, O.DESCRIBE_TOKENS),
}
"""Operations per resource type, also the content of `authorized operations`."""
_IMPLIED_BY = {
    O.DESCRIBE: {O.DESCRIBE, O.READ, O.WRITE, O.DELETE, O.ALTER},
    O.DESCRIBE_CONFIGS: {O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS},
}
"""Permission for one of these operations implies DESCRIBE. A denial implies nothing."""


E = TypeVar("E", bound=IntEnum)


def _member(kind: type[E], data: AccessValue, field: str) -> E:
    """The member that a field names, in lower case."""
    text = text_of(data, field)
    try:
        return kind[text.upper()]
    except KeyError:
        raise invalid(field, text, f"one of {', '.join(name.lower() for name in kind.__members__)}") from None


class AclEntry(NamedTuple):
    resource: Resource
    pattern: PatternType
    name: str
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def to_json(self) -> dict[str, str]:
        """The field values in the control plane's table."""
        return {
            "resource_type": self.resource.name.lower(),
            "pattern_type": self.pattern.name.lower(),
            "resource_name": self.name,
            "principal": self.principal,
            "host": self.host,
            "operation": self.operation.name.lower(),
            "permission": self.permission.name.lower(),
        }

    @property
    def key(self) -> str:
        return "|".join(word.replace("|", "\\|") for word in self.to_json().values())

    @staticmethod
    def from_json(data: AccessValue) -> AclEntry:
        """Raises InvalidAccessValue."""
        return AclEntry(
            _member(Resource, data, "resource_type"),
            _member(PatternType, data, "pattern_type"),
            text_of(data, "resource_name"),
            text_of(data, "principal"),
            text_of(data, "host"),
            _member(Operation, data, "operation"),
            _member(Permission, data, "permission"),
        )

    def concerns(self, principal: str, host: str) -> bool:
        return self.principal in (principal, ANY_PRINCIPAL) and self.host in (host, WILDCARD)


class DecisionReason(IntEnum):
    SUPER_USER, DENIED_BY_ACL, ALLOWED_BY_ACL, NO_MATCHING_ACL, NO_ACL_OF_RESOURCE = range(5)


class Decision(NamedTuple):
    """The result of an authorization. `acl`: the deciding ACL for DENIED_BY_ACL and ALLOWED_BY_ACL. NO_MATCHING_ACL: the resource has ACLs, but
    no ACL allows the operation. NO_ACL_OF_RESOURCE: `allow.everyone.if.no.acl.found` decides."""

    allowed: bool
    reason: DecisionReason
    acl: AclEntry | None = None


class Acls:
    """A set of ACLs and its decisions."""

    def __init__(
        self,
        acls: Iterable[AclEntry] = (),
        super_users: Iterable[str] = (),
        allow_if_none: bool = False,
        front_target: Callable[[str], str] = lambda name: "",
    ) -> None:
        """`front_target`: the topic to which a front topic delivers, empty for any other topic."""
        self._super_users, self._allow_if_none = frozenset(super_users), allow_if_none
        self.all = tuple(acls)
        self._literal: dict[tuple[Resource, str], list[AclEntry]] = {}
        self._prefixed: dict[tuple[Resource, str], list[AclEntry]] = {}
        for acl in self.all:
            place = self._literal if acl.pattern is PatternType.LITERAL else self._prefixed
            place.setdefault((acl.resource, acl.name), []).append(acl)
        self._lengths = sorted({len(name) for _, name in self._prefixed})
        self._decided: dict[tuple[str, str, Operation, Resource, str], bool] = {}
        self._front_target = front_target

    def matching_acls(self, resource: Resource, name: str) -> list[AclEntry]:
        """The ACLs that match this resource."""
        out = [
            *self._literal.get((resource, name), ()),
            *(self._literal.get((resource, WILDCARD), ()) if name != WILDCARD else ()),
        ]
        for length in self._lengths:
            if length > len(name):
                break
            out += self._prefixed.get((resource, name[:length]), ())
        return out

    def allowed(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        """WRITE and DESCRIBE of a topic include its front topic, unless an ACL of the front topic denies them."""
        if self._allowed(principal, host, operation, resource, name):
            return True
        if resource is not Resource.TOPIC or operation not in (O.WRITE, O.DESCRIBE):
            return False
        target = self._front_target(name)
        if not target or self.explain(principal, host, operation, resource, name).acl is not None:
            return False
        return self._allowed(principal, host, operation, resource, target)

    def _allowed(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        query = (principal, host, operation, resource, name)
        known = self._decided.get(query)
        if known is None:
            if len(self._decided) >= DECISIONS_MAX:
                self._decided.clear()
            known = self._decided[query] = self.explain(*query).allowed
        return known

    def explain(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> Decision:
        """The decision and its cause."""
        if principal in self._super_users:
            return Decision(True, DecisionReason.SUPER_USER)
        about = self.matching_acls(resource, name)
        if not about:
            return Decision(self._allow_if_none, DecisionReason.NO_ACL_OF_RESOURCE)
        concerning = [a for a in about if a.concerns(principal, host)]
        for acl in concerning:
            if acl.permission is Permission.DENY and acl.operation in (operation, O.ALL):
                return Decision(False, DecisionReason.DENIED_BY_ACL, acl)
        enough = {*_IMPLIED_BY.get(operation, {operation}), O.ALL}
        for acl in concerning:
            if acl.permission is Permission.ALLOW and acl.operation in enough:
                return Decision(True, DecisionReason.ALLOWED_BY_ACL, acl)
        return Decision(False, DecisionReason.NO_MATCHING_ACL)

    def allowed_anywhere(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        """Return whether the operation is allowed on at least one resource of this type (Kafka's authorizeByResourceType)."""
        if principal in self._super_users:
            return True
        mine = [
            a
            for a in self.all
            if a.resource is resource and a.concerns(principal, host) and a.operation in (operation, O.ALL)
        ]
        denied = [a for a in mine if a.permission is Permission.DENY]
        if any(d.pattern is PatternType.LITERAL and d.name == WILDCARD for d in denied):
            return False
        for allow in mine:
            if allow.permission is not Permission.ALLOW:
                continue
            if not any(self._covers(d, allow) for d in denied):
                return True
        return self._allow_if_none and not self._literal and not self._prefixed

    @staticmethod
    def _covers(denied: AclEntry, allow: AclEntry) -> bool:
        """Return whether the denial covers the whole permission."""
        if denied.pattern is PatternType.PREFIXED:
            return allow.name.startswith(denied.name) and (
                allow.pattern is PatternType.PREFIXED or allow.name != WILDCARD
            )
        return allow.pattern is PatternType.LITERAL and denied.name == allow.name


class Filter(NamedTuple):
    """The filter of DescribeAcls and DeleteAcls. None and ANY match everything."""

    resource: int
    pattern: int
    name: str | None
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def problem(self) -> str | None:
        if self.resource not in range(1, 8) or self.pattern not in range(1, 5):
            return "the filter's resource or pattern type is not known"
        if self.operation not in range(1, 16) or self.permission not in range(1, 4):
            return "the filter's operation or permission type is not known"
        return None

    def fits(self, acl: AclEntry) -> bool:
        return (
            self.resource in (Resource.ANY, acl.resource)
            and self._fits_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (O.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _fits_name(self, acl: AclEntry) -> bool:
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, acl.pattern):
            return False
        if self.name is None or self.name == acl.name:
            return True
        if self.pattern != PatternType.MATCH:
            return False
        return acl.name == WILDCARD if acl.pattern is PatternType.LITERAL else self.name.startswith(acl.name)
