"""Claims of idempotency keys."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.models import IdempotencyKey
from controlplane.services import idempotency
from controlplane.services.idempotency import ClaimState

pytestmark = pytest.mark.django_db


def test_a_claim_runs_until_its_response_is_stored() -> None:
    claim = idempotency.claim("alice", "k", "f")
    assert claim.state is ClaimState.NEW
    assert idempotency.claim("alice", "k", "f").state is ClaimState.RUNNING
    idempotency.keep_response(claim.id, 201, {"id": 7}, secret=False)
    stored = idempotency.claim("alice", "k", "f")
    assert (stored.state, stored.status, stored.body, stored.secret) == (ClaimState.STORED, 201, {"id": 7}, False)
    assert idempotency.claim("alice", "k", "g").state is ClaimState.OTHER_REQUEST


def test_a_secret_response_is_stored_without_its_body() -> None:
    claim = idempotency.claim("alice", "k", "f")
    idempotency.keep_response(claim.id, 201, {"password": "x"}, secret=True)
    stored = idempotency.claim("alice", "k", "f")
    assert (stored.secret, stored.body) == (True, None)


def test_a_released_or_expired_key_is_free_again() -> None:
    idempotency.release(idempotency.claim("alice", "k", "f").id)
    assert idempotency.claim("alice", "k", "g").state is ClaimState.NEW
    IdempotencyKey.objects.update(created_at=timezone.now() - idempotency.LIFETIME - timedelta(seconds=1))
    assert idempotency.claim("alice", "k", "h").state is ClaimState.NEW


def test_a_fingerprint_depends_on_each_part() -> None:
    assert len({idempotency.fingerprint(*parts) for parts in (("a", "b"), ("a", "c"), ("ab", ""), ("a", "b"))}) == 3
