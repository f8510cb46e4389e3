"""Users who log in through a directory: create them, refresh their rights at each login, and decide whether their API tokens are still valid.

Invariants: an account of a directory and a user belong together by issuer and subject, never by name or e-mail address. The flags and groups of such a
user are exactly those of its last login. A local administrator is never taken over. Does not contain: the rules of groups (`domain.external_login`).
"""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone
from rest_framework.authtoken.models import Token

from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.external_login import (
    USERNAME_CHARS_MAX,
    ExternalUser,
    GroupRules,
    LoginRejected,
    LoginRejection,
    LoginSource,
    UserRights,
    rights_of,
)
from controlplane.models import ExternalIdentity
from controlplane.models.change import Outcome
from controlplane.services.common import record


def group_rules() -> GroupRules:
    """Return the rules of external logins from the settings."""
    weir = settings.WEIR
    return GroupRules(
        dict(weir.login_groups), weir.login_viewer_groups, weir.login_operator_groups, weir.login_admin_groups
    )


def user_of(external_user: ExternalUser) -> User:
    """The user of this account, with the rights of its groups. Creates the user at the first login. Raises LoginRejected."""
    try:
        rights = rights_of(external_user, group_rules())
    except LoginRejected:
        _withdraw(external_user)
        raise
    try:
        with transaction.atomic():
            return _refresh(external_user, rights)
    except IntegrityError:  # two concurrent first logins of the same user
        with transaction.atomic():
            return _refresh(external_user, rights)


def _refresh(external_user: ExternalUser, rights: UserRights) -> User:
    now = timezone.now()
    identity = (
        ExternalIdentity.objects.select_for_update(of=("self",))
        .select_related("user")
        .filter(source=external_user.source, issuer=external_user.issuer, subject=external_user.subject)
        .first()
    )
    user = identity.user if identity else _new_or_linked(external_user)
    if not user.is_active:
        raise LoginRejected(LoginRejection.DISABLED, user=user.get_username())
    before = _rights(user)
    user.is_staff, user.is_superuser = rights.is_staff, rights.is_superuser
    user.email = external_user.email[:254]
    user.save(update_fields=["is_staff", "is_superuser", "email"])
    user.groups.set([Group.objects.get_or_create(name=name)[0] for name in sorted(rights.groups)])
    ExternalIdentity.objects.update_or_create(
        user=user,
        defaults={
            "source": external_user.source,
            "issuer": external_user.issuer,
            "subject": external_user.subject,
            "seen_at": now,
        },
    )
    after = _rights(user)
    if identity is None or before != after:
        record(
            user.get_username(),
            AuditOperation.CONSOLE_USER_REFRESH if identity else AuditOperation.CONSOLE_USER_CREATE,
            "console_user",
            user.get_username(),
            before=before if identity else None,
            after={**after, "source": external_user.source},
            outcome=Outcome.CONFIRMED,
        )
    return user


def _withdraw(external_user: ExternalUser) -> None:
    """Remove the rights of a user that the directory has in no permitted group any more: flags, groups and API tokens end immediately, not after
    WEIR_LOGIN_TOKEN_DAYS."""
    with transaction.atomic():
        rows = ExternalIdentity.objects.select_related("user")
        identity = rows.filter(
            source=external_user.source, issuer=external_user.issuer, subject=external_user.subject
        ).first()
        if identity is None or identity.seen_at is None:
            return
        user = identity.user
        before = _rights(user)
        user.is_staff = user.is_superuser = False
        user.save(update_fields=["is_staff", "is_superuser"])
        user.groups.clear()
        identity.seen_at = None
        identity.save(update_fields=["seen_at"])
        record(
            user.get_username(),
            AuditOperation.CONSOLE_USER_REFRESH,
            "console_user",
            user.get_username(),
            before=before,
            after={**_rights(user), "source": external_user.source},
            outcome=Outcome.CONFIRMED,
        )


def _new_or_linked(external_user: ExternalUser) -> User:
    users = get_user_model().objects
    try:
        get_user_model().username_validator(external_user.name)  # type: ignore[attr-defined]
        if len(external_user.name) > USERNAME_CHARS_MAX:
            raise ValidationError("too long")
    except ValidationError:
        raise LoginRejected(LoginRejection.INVALID_NAME, user=external_user.name[:USERNAME_CHARS_MAX]) from None
    user = users.filter(username__iexact=external_user.name).first()
    if user is None:
        return users.create_user(external_user.name, email=external_user.email[:254])
    is_external = ExternalIdentity.objects.filter(user=user).exists()
    if (
        is_external
        or user.is_superuser
        or not settings.WEIR.login_link_users
        or user.get_username() != external_user.name
    ):
        raise LoginRejected(LoginRejection.NAME_TAKEN, user=external_user.name)
    user.set_unusable_password()
    user.save(update_fields=["password"])
    Token.objects.filter(user=user).delete()  # these tokens may have no end, and the last login does not limit them
    return user


def _rights(user: User) -> dict[str, object]:
    groups = sorted(user.groups.values_list("name", flat=True))
    return {"is_staff": user.is_staff, "is_superuser": user.is_superuser, "groups": groups}


def is_external(user: User) -> bool:
    return ExternalIdentity.objects.filter(user=user).exists()


def token_rejection(user: User) -> str:
    """Return the reason why the API tokens of this user are not accepted; empty if they are. `user` has its `external_identity` from the same query."""
    identity = getattr(user, "external_identity", None)
    if identity is None:
        return ""
    days = settings.WEIR.login_token_days
    if identity.seen_at is None:
        return "The user of this API token is in no group of the directory that may log in. Log in to the console to see which group is needed."
    if timezone.now() - identity.seen_at <= timedelta(days=days):
        return ""
    return (
        f"The user of this API token has not logged in for {days} days, so the directory may have removed the user. Log in to the console: "
        "then the token is accepted again."
    )


def record_login(user: str, source: LoginSource, address: str) -> None:
    record(
        user,
        AuditOperation.SESSION_LOGIN,
        "session",
        user,
        after={"source": source, "address": address[:64]},
        outcome=Outcome.CONFIRMED,
    )


def record_logout(user: str, *, reason: str = "") -> None:
    record(user, AuditOperation.SESSION_LOGOUT, "session", user, outcome=Outcome.CONFIRMED, detail=reason)


def record_failure(user: str, source: LoginSource, address: str, reason: str) -> None:
    """Record a failed login. The user must be confirmed by the directory or exist locally. Otherwise invented names would fill the audit log."""
    record(
        user,
        AuditOperation.SESSION_LOGIN,
        "session",
        user,
        after={"source": source, "address": address[:64]},
        outcome=Outcome.REJECTED,
        detail=reason,
    )
