"""Role bindings: create and delete. Invariant: only administrators change them, because a binding gives permissions to others. A user or a group
must exist: a name alone would give the rights to a later user of this name."""

from __future__ import annotations

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, PermissionsMixin
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction

from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.roles import check_grant
from controlplane.models import RoleBinding
from controlplane.models.change import Outcome
from controlplane.services.authorization import User
from controlplane.services.common import AlreadyExists, Rejected, audited, record, record_rejection
from weir_common.phrases import sentence

NEEDS_ADMINISTRATOR = "Role bindings are changed by administrators (superusers)."
BINDINGS_MAX = 10_000
"""Maximum number of bindings of all users and groups. Those of one user are read for each change that this user requests."""


def check_administrator(user: User, verb: AuditOperation, name: str) -> None:
    """Raises PermissionDenied after the rejection is written to the audit log."""
    if not (isinstance(user, PermissionsMixin) and user.is_superuser):
        record_rejection(user.get_username(), verb, "role_binding", name[:255], Rejected(NEEDS_ADMINISTRATOR))
        raise PermissionDenied(NEEDS_ADMINISTRATOR)


@audited(
    AuditOperation.ROLE_BINDING_CREATE,
    lambda a: a["user"] or a["group"],
    after=lambda a: {f: a[f] for f in ("user", "group", "role", "resource_type", "pattern_type", "resource_name")},
)
def create_binding(
    *,
    user: str = "",
    group: str = "",
    role: str,
    resource_type: str,
    pattern_type: str,
    resource_name: str,
    actor: str,
    comment: str = "",
) -> RoleBinding:
    """Give a role to the user or to the members of the Django group. It applies to the next request. Raises Rejected."""
    grant = check_grant(role, resource_type, pattern_type, resource_name.strip())
    holder = check_holder(user, group)
    if RoleBinding.objects.count() >= BINDINGS_MAX:
        raise Rejected(
            sentence("There are {max} role bindings already. Use prefixes and groups.", max=f"{BINDINGS_MAX:,}")
        )
    values = {
        "role": grant.role.value,
        "resource_type": grant.resource_type.value,
        "pattern_type": grant.pattern_type.value,
        "resource_name": grant.resource_name,
    }
    try:
        with transaction.atomic():
            binding = RoleBinding.objects.create(created_by=actor, **holder, **values)
            record(
                actor,
                AuditOperation.ROLE_BINDING_CREATE,
                "role_binding",
                user or group,
                comment=comment,
                after={"user": user, "group": group, **values},
                object_id=f"role-binding-{binding.pk}",
                outcome=Outcome.CONFIRMED,
            )
            return binding
    except IntegrityError:
        raise AlreadyExists("This role binding exists already.", "resource_name") from None


def check_holder(user: str, group: str) -> dict[str, int]:
    """The column of this user or group, with its key. Raises Rejected."""
    if bool(user) == bool(group):
        raise Rejected("Name a user or a group, and not both.", "user")
    if user:
        found = get_user_model().objects.filter(username=user).values_list("pk", flat=True).first()
        if found is None:
            raise Rejected(sentence("There is no user {user} of the console.", user=repr(user)), "user")
        return {"user_id": found}
    row = Group.objects.filter(name=group).first()
    if row is None:
        raise Rejected(
            sentence(
                "There is no group {group} of console users. A login through a directory creates the groups of WEIR_LOGIN_GROUPS.",
                group=repr(group),
            ),
            "group",
        )
    return {"group_id": row.pk}


@audited(AuditOperation.ROLE_BINDING_DELETE, "{binding_id}")
def delete_binding(binding_id: int, *, actor: str, comment: str = "") -> None:
    """Withdraw a role: the next request of its users is rejected. Raises Rejected for a binding that does not exist (any more)."""
    with transaction.atomic():
        row = RoleBinding.objects.select_related("user", "group").filter(pk=binding_id).first()
        if row is None or not RoleBinding.objects.filter(pk=binding_id).delete()[0]:
            raise Rejected(
                sentence(
                    "Role binding {binding_id} does not exist; it may have been deleted already.", binding_id=binding_id
                )
            )
        user = row.user.get_username() if row.user is not None else ""
        group = row.group.name if row.group is not None else ""
        before = {f: getattr(row, f) for f in ("role", "resource_type", "pattern_type", "resource_name")}
        record(
            actor,
            AuditOperation.ROLE_BINDING_DELETE,
            "role_binding",
            user or group,
            comment=comment,
            before={"user": user, "group": group, **before},
            object_id=f"role-binding-{binding_id}",
            outcome=Outcome.CONFIRMED,
        )
