"""Authorization by roles: the only place that decides what a user may do with a resource. Pages, REST and sockets call these functions.

Invariants: the flag `is_staff` is the role of an operator for the whole cluster, and the permissions read_records and produce_records hold for all topics;
bindings add rights for topics, groups and SCRAM users that match a pattern. The scope of an API token limits bindings like it limits the flag. An operation
on several resources is rejected as a whole, with the names for which the role is missing, before anything is done. Does not contain: which resource a route
is about (`controlplane.api.access_rules`, `console.access_rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser, AbstractUser, AnonymousUser, PermissionsMixin

from controlplane.domain.access import AclPattern
from controlplane.domain.alert_phrases import AlertPhrase
from controlplane.domain.roles import (
    CLUSTER_NAME,
    FILTERED,
    ROLE_FOR,
    WILDCARD,
    Access,
    AccessRole,
    Grant,
    RoleResource,
    denied_names,
)
from controlplane.domain.token_scopes import TokenScope
from controlplane.domain.visibility import EVERYTHING, Visibility
from controlplane.models import RoleBinding
from controlplane.selectors.role_bindings import RoleBindingRow, binding_shape, bindings_of
from controlplane.services.common import Rejected
from controlplane.services.request_resources import (
    Names,
    RequestNames,
    acl_of_path,
    entity_of_quota,
    group_of_reset,
    topics_of_move,
)
from weir_common.phrases import Phrase, Value, sentence

User = AbstractBaseUser | AnonymousUser
TOKEN_SCOPE = "token_scope"
"""Attribute of a user whom an API token authenticated."""
VIEWS_EVERYTHING = "views_everything"
"""Attribute of such a user: whether the owner of the token is an operator or an administrator. A token of the scope `read` takes these flags away."""
PERMISSION_FOR = {
    Access.READ_RECORDS: "controlplane.read_records",
    Access.PRODUCE_RECORDS: "controlplane.produce_records",
}
NAMES_SHOWN_MAX = 20
"""Maximum number of names in one message. A move may have thousands of topics."""
NEEDS_OPERATOR = "Only operators may change the cluster; ask one for the role."
NEEDS_CLUSTER_VIEWER = (
    "This shows the whole cluster, and you see only the resources of your role bindings (WEIR_VIEW_BY_ROLE). It needs the role viewer on the cluster. "
    "An administrator (superuser) gives it: Role bindings, or POST /api/v1/role-bindings."
)
HIDDEN_OBJECT = "There is no object of this number, or it is about resources for which you have no role."
BY_NUMBER = (acl_of_path, entity_of_quota, group_of_reset, topics_of_move)
"""Names that come from the row of a number in the path: a rejection with them would show them."""
HOW_TO_GET = "An administrator (superuser) gives it: Role bindings, or POST /api/v1/role-bindings."


@dataclass(frozen=True, slots=True)
class AccessRule:
    """The resources that a route is about. Without names in a request, the role for the whole cluster is needed. `also`: further rules that must
    permit the request, if it has names for them. `whole_cluster`: the response also shows other resources, so users who see only some resources are
    rejected. `checked_by_view`:
    the view finds the resources and checks the role for each before it changes anything; here any role for the type is enough."""

    resource: RoleResource
    names: Names
    access: Access = Access.OPERATE
    also: tuple[AccessRule, ...] = ()
    whole_cluster: bool = False
    checked_by_view: bool = False

    @property
    def filtered(self) -> bool:
        """True if a user who sees only some resources may open it: its selectors omit the others."""
        return self.resource in FILTERED and not self.whole_cluster


class AccessReason(StrEnum):
    """The reason why a user has an access. `CLUSTER_OPERATOR`: the flag `is_staff`. `PERMISSION`: read_records or produce_records, for all topics.
    `EVERY_USER`: to view a resource while WEIR_VIEW_BY_ROLE is off."""

    SUPERUSER = "superuser"
    CLUSTER_OPERATOR = "cluster_operator"
    PERMISSION = "permission"
    EVERY_USER = "every_user"
    ROLE_BINDING = "role_binding"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class AccessCheck:
    """The permissions of a user for one resource. `reason`: superuser, cluster_operator, permission, every_user, role_binding, or none: the user may not.
    `bindings`: the role bindings that permit it."""

    user: str
    access: str
    resource_type: str
    resource_name: str
    allowed: bool
    reason: str
    bindings: list[RoleBindingRow]


def grants_of(user: User) -> list[Grant]:
    """The roles of the user and of their groups. Empty for a user that is not active."""
    if not (isinstance(user, PermissionsMixin) and user.is_authenticated and user.is_active):
        return []
    grants = [_grant(row) for row in bindings_of(user.pk)]
    scope: TokenScope = getattr(user, TOKEN_SCOPE, TokenScope.ADMIN)
    return grants if scope.permits(TokenScope.OPERATE) else [_read_only(g) for g in grants]


def _grant(row: RoleBinding) -> Grant:
    return Grant(AccessRole(row.role), RoleResource(row.resource_type), AclPattern(row.pattern_type), row.resource_name)


def _reads(grant: Grant) -> bool:
    return grant.permits(Access.READ_RECORDS, grant.resource_type, grant.resource_name)


def _read_only(grant: Grant) -> Grant:
    role = AccessRole.READER if _reads(grant) else AccessRole.VIEWER
    return Grant(role, grant.resource_type, grant.pattern_type, grant.resource_name)


def visibility_of(user: User) -> Visibility:
    """The resources that the user sees in lists and on pages."""
    if not settings.WEIR.view_by_role or _views_everything(user):
        return EVERYTHING
    grants = grants_of(user)
    if any(g.permits(Access.VIEW, RoleResource.CLUSTER, CLUSTER_NAME) for g in grants):
        return EVERYTHING
    if isinstance(user, PermissionsMixin) and user.has_perm(PERMISSION_FOR[Access.READ_RECORDS]):
        grants.append(Grant(AccessRole.READER, RoleResource.TOPIC, AclPattern.LITERAL, WILDCARD))
    return Visibility(tuple(grants))


def visibility_of_stored(user_id: int) -> Visibility:
    """Return the visibility of the user as stored now, for connections that outlive changes of the account. A deleted or deactivated user sees nothing."""
    user = get_user_model().objects.filter(pk=user_id, is_active=True).first()
    return Visibility(()) if user is None else visibility_of(user)


def _views_everything(user: User) -> bool:
    flags = ("is_staff", "is_superuser", VIEWS_EVERYTHING)
    return user.is_active and any(getattr(user, flag, False) for flag in flags)


def view_rejection(visibility: Visibility, rule: AccessRule | None, request_names: Callable[[], RequestNames]) -> str:
    """Return the reason why a user with the visibility `visibility` may not open a page or a route; "" = allowed. `rule` None: the page shows the whole
    cluster. A request without names shows a list, whose rows are filtered. The rejection does not say whether a resource exists."""
    if not visibility.limited:
        return ""
    if rule is None or not rule.filtered:
        return NEEDS_CLUSTER_VIEWER
    hidden = sorted({n for n in rule.names(request_names()) if not visibility.sees(rule.resource, n)})
    if not hidden:
        return ""
    if rule.names in BY_NUMBER:
        return HIDDEN_OBJECT
    return sentence(
        "You need the role {role} on {resources}. {how}",
        role=Phrase(ROLE_FOR[Access.VIEW]),
        resources=_resource_names(rule.resource, hidden),
        how=sentence(HOW_TO_GET),
    )


def permits(user: User, access: Access, resource: RoleResource, name: str) -> bool:
    """Return whether a binding of the user permits the access."""
    return not denied_names(grants_of(user), access, resource, [name])


def has_role(user: User, access: Access, resource: RoleResource) -> bool:
    """Return whether the user has the access to any resource of this type."""
    return any(g.permits(access, resource, g.resource_name) for g in grants_of(user))


def may_change_something(user: User) -> bool:
    """Return whether the user is an operator of the cluster, or may change any resource or produce to it."""
    changes = (Access.OPERATE, Access.PRODUCE_RECORDS)
    return bool(getattr(user, "is_staff", False)) or any(
        g.permits(access, g.resource_type, g.resource_name) for g in grants_of(user) for access in changes
    )


def rejection(
    user: User, rule: AccessRule | None, request_names: Callable[[], RequestNames], *, empty_form: bool = False
) -> str:
    """Return the reason why the user may not do this; "" = allowed. `rule` None: only the role for the whole cluster permits it. `empty_form`: a request
    that names no resource yet opens a form, and needs any role for the type."""
    if getattr(user, "is_staff", False) and user.is_active:
        return ""
    if rule is None or not has_role(user, rule.access, rule.resource):
        return NEEDS_OPERATOR
    values = request_names()
    names = rule.names(values)
    if not names and (empty_form or rule.checked_by_view):
        return ""
    if reason := rejection_of(user, rule.access, rule.resource, names):
        return reason
    others = ((r, r.names(values)) for r in rule.also)
    return next(
        (denial for r, also in others if also and (denial := rejection_of(user, r.access, r.resource, also))), ""
    )


def rejection_of(user: User, access: Access, resource: RoleResource, names: Collection[str]) -> str:
    """Return the reason why the user has no `access` to one of these resources; "" = allowed. Without names only an operator is allowed."""
    if getattr(user, "is_staff", False) and user.is_active:
        return ""
    if not names:
        return NEEDS_OPERATOR
    lacking = sorted(set(denied_names(grants_of(user), access, resource, names)))
    if not lacking:
        return ""
    return sentence(
        "You need the role {role} on {resources}. Nothing was changed. {how}",
        role=Phrase(ROLE_FOR[access]),
        resources=_resource_names(resource, lacking),
        how=sentence(HOW_TO_GET),
    )


def _resource_names(resource: RoleResource, names: list[str]) -> str:
    shown: Value = names[:NAMES_SHOWN_MAX]
    if len(names) > NAMES_SHOWN_MAX:
        shown = Phrase(AlertPhrase.AND_MORE, {"names": shown, "rest": str(len(names) - NAMES_SHOWN_MAX)})
    noun = Phrase(resource.value, plural=f"{resource.value}s", count=len(names))
    return sentence("{resource} {names}", resource=noun, names=shown)


def check_access(*, user: str, access: str, resource_type: str, resource_name: str) -> AccessCheck:
    """Return whether the user may do this in the console, and why. Raises Rejected for an unknown user."""
    person = get_user_model().objects.filter(username=user).first()
    if person is None:
        raise Rejected(sentence("There is no user {user} of the console.", user=repr(user)), "user")
    requested, resource = Access(access), RoleResource(resource_type)
    rows = bindings_of(person.pk) if person.is_active else []
    permitting = [r for r in rows if _grant(r).permits(requested, resource, resource_name)]
    of_all = (Access.OPERATE, Access.VIEW)
    reason = _reason(person, requested) if resource is RoleResource.TOPIC or requested in of_all else AccessReason.NONE
    if requested is Access.VIEW and reason is AccessReason.NONE and person.is_active:
        permitting = permitting or [r for r in rows if _grant(r).permits(requested, RoleResource.CLUSTER, CLUSTER_NAME)]
        if not settings.WEIR.view_by_role:
            reason = AccessReason.EVERY_USER
        elif not permitting and visibility_of(person).sees(resource, resource_name):
            reason = AccessReason.PERMISSION
    if reason is AccessReason.NONE and permitting:
        reason = AccessReason.ROLE_BINDING
    shown = [binding_shape(r) for r in permitting]
    return AccessCheck(user, access, resource_type, resource_name, reason is not AccessReason.NONE, reason.value, shown)


def _reason(person: AbstractUser, access: Access) -> AccessReason:
    """Return the reason why the user has the access for the whole cluster. Every change needs the flag `is_staff`, so produce_records counts only
    together with the flag."""
    if not person.is_active or (access is not Access.READ_RECORDS and not person.is_staff):
        return AccessReason.NONE
    if person.is_superuser:
        return AccessReason.SUPERUSER
    if access in (Access.OPERATE, Access.VIEW):
        return AccessReason.CLUSTER_OPERATOR
    return AccessReason.PERMISSION if person.has_perm(PERMISSION_FOR[access]) else AccessReason.NONE
