"""Idempotency keys: a repeated request gets the first response instead of a second effect.

Invariant: at most one request per actor and key runs. A claim that has no response stays until it expires, because its effect is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac

from controlplane.models import IdempotencyKey

LIFETIME = timedelta(hours=24)
"""Time for which a response is stored. A client that repeats a request later sends a new one."""


class ClaimState(Enum):
    NEW = auto()
    STORED = auto()
    RUNNING = auto()
    OTHER_REQUEST = auto()


@dataclass(frozen=True, slots=True)
class Claim:
    """`id` of the row; `status` and `body` of a stored response, `secret` if its body was not stored."""

    state: ClaimState
    id: int
    status: int = 0
    body: object = None
    secret: bool = False


def fingerprint(*parts: str) -> str:
    """HMAC-SHA-256 with the secret key: a body may contain a password."""
    return salted_hmac("controlplane.idempotency", "\0".join(parts), algorithm="sha256").hexdigest()


def claim(actor: str, key: str, request: str) -> Claim:
    """Reserve the key for the request with this fingerprint, or find the stored response of an earlier request with the key."""
    IdempotencyKey.objects.filter(created_at__lt=timezone.now() - LIFETIME).delete()
    try:
        with transaction.atomic():
            return Claim(ClaimState.NEW, IdempotencyKey.objects.create(actor=actor, key=key, fingerprint=request).pk)
    except IntegrityError:
        row = IdempotencyKey.objects.filter(actor=actor, key=key).first()
    if row is None:  # Another request with the key changed nothing and has just released it.
        return Claim(ClaimState.RUNNING, 0)
    if row.fingerprint != request:
        return Claim(ClaimState.OTHER_REQUEST, row.pk)
    if row.status is None:
        return Claim(ClaimState.RUNNING, row.pk)
    return Claim(ClaimState.STORED, row.pk, row.status, row.body, row.secret)


def keep_response(claim_id: int, status: int, body: object, *, secret: bool) -> None:
    """Store the response of a request that had an effect. The body is not stored if it is secret."""
    IdempotencyKey.objects.filter(pk=claim_id).update(status=status, body=None if secret else body, secret=secret)


def release(claim_id: int) -> None:
    """Forget a request that changed nothing, so that it can be repeated with the same key."""
    IdempotencyKey.objects.filter(pk=claim_id).delete()
