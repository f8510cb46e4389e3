"""API tokens: create, revoke, find the token of a request.

Invariants: a token has 256 random bits, so its SHA-256 needs no salt. The text of a token is in no row, change row, error or log line.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime, timedelta

from django.contrib.auth import get_user_model
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.token_scopes import TokenScope
from controlplane.models import ApiToken
from controlplane.models.change import Outcome
from controlplane.services.common import AlreadyExists, Rejected, audited, record
from weir_common.phrases import sentence

MARK = "weir_"
"""Beginning of every token. Secret scanners find tokens by it."""
RANDOM_BYTES = 32
PREFIX_CHARS = len(MARK) + 6
TOKENS_PER_USER_MAX = 50
"""Maximum number of tokens of a user. A program that creates one token per run reaches this limit and does not fill the table."""
NAME_CHARS_MAX = 100
"""Maximum number of characters: the width of the column."""
USE_RECORDED_EVERY = timedelta(minutes=1)
"""Minimum time between two updates of a token's last use. It limits the database writes of a client that sends many requests."""


@audited(AuditOperation.TOKEN_CREATE, "{name}")
def create_token(
    name: str,
    *,
    actor: str,
    scope: TokenScope,
    limit: TokenScope,
    expires_at: datetime | None = None,
    comment: str = "",
) -> tuple[ApiToken, str]:
    """Create a token of the user `actor`. Returns its row and its text, which cannot be shown again. `limit` is the largest scope that the caller may give.
    Raises Rejected, and AlreadyExists for a name that the user has."""
    if not name.strip() or len(name) > NAME_CHARS_MAX:
        raise Rejected(sentence("Give a name of 1 to {max} characters.", max=NAME_CHARS_MAX), "name")
    if not limit.permits(scope):
        raise Rejected(sentence("Your role permits only tokens up to the scope {limit}.", limit=limit), "scope")
    if expires_at is not None and expires_at <= timezone.now():
        raise Rejected("The end must be in the future.", "expires_at")
    user = get_user_model().objects.get(username=actor)
    if ApiToken.objects.filter(user=user).count() >= TOKENS_PER_USER_MAX:
        raise Rejected(sentence("You have {max} tokens. Revoke one that is not used.", max=TOKENS_PER_USER_MAX))
    text = MARK + secrets.token_urlsafe(RANDOM_BYTES)
    try:
        with transaction.atomic():
            row = ApiToken.objects.create(
                user=user,
                name=name,
                scope=scope,
                prefix=text[:PREFIX_CHARS],
                digest=_digest(text),
                expires_at=expires_at,
            )
            given = {"scope": scope, "prefix": row.prefix, "expires_at": expires_at and expires_at.isoformat()}
            record(
                actor,
                AuditOperation.TOKEN_CREATE,
                "token",
                name,
                comment=comment,
                after=given,
                outcome=Outcome.CONFIRMED,
            )
    except IntegrityError:
        raise AlreadyExists(
            sentence("You have a token named {name}. Choose another name, or revoke it.", name=repr(name)), "name"
        ) from None
    return row, text


def revoke_token(token_id: int, *, actor: str, comment: str = "") -> None:
    """The next request with the token is rejected. Without effect for a token that is already revoked."""
    with transaction.atomic():
        row = ApiToken.objects.select_for_update().select_related("user").filter(pk=token_id).first()
        if row is None:
            return
        before = {"scope": row.scope, "prefix": row.prefix, "user": row.user.get_username()}
        row.delete()
        record(
            actor,
            AuditOperation.TOKEN_REVOKE,
            "token",
            row.name,
            comment=comment,
            before=before,
            outcome=Outcome.CONFIRMED,
        )


def find_token(text: str) -> ApiToken | None:
    """The token with this text, also an expired one. Records its use."""
    row = ApiToken.objects.select_related("user__external_identity").filter(digest=_digest(text)).first()
    if row is not None and not expired(row):
        now = timezone.now()
        stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=now - USE_RECORDED_EVERY)
        if row.last_used_at is None or row.last_used_at < now - USE_RECORDED_EVERY:
            ApiToken.objects.filter(stale, pk=row.pk).update(last_used_at=now)
    return row


def expired(row: ApiToken) -> bool:
    return row.expires_at is not None and row.expires_at <= timezone.now()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
