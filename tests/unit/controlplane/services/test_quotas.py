"""Client quotas: limits are merged, and each change is in the audit log with the limits before and after."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.models import AccessEntry, Change
from controlplane.services import quotas
from controlplane.services.common import Rejected

pytestmark = pytest.mark.django_db


def test_limits_are_merged_and_removed_one_by_one() -> None:
    row = quotas.set_quota({"user": "ann"}, {"producer_byte_rate": 5e6, "request_percentage": 50}, actor="op")
    assert (row.key, row.waiting) == ('{"user":"ann"}', True)
    row = quotas.set_quota({"user": "ann"}, {"producer_byte_rate": 6e6, "request_percentage": None}, actor="op")
    assert (row.value, row.generation) == ({"producer_byte_rate": 6e6}, 2)
    row = quotas.set_quota({"user": "ann"}, {"producer_byte_rate": None}, actor="op", comment="done")
    assert (row.value, AccessEntry.objects.count()) == (None, 1)
    changes = [(c.verb, c.before, c.after, c.comment) for c in Change.objects.order_by("id")]
    assert changes == [
        ("quota.set", None, {"producer_byte_rate": 5e6, "request_percentage": 50}, ""),
        (
            "quota.set",
            {"producer_byte_rate": 5e6, "request_percentage": 50},
            {"producer_byte_rate": 6e6},
            "",
        ),
        ("quota.delete", {"producer_byte_rate": 6e6}, None, "done"),
    ]


@pytest.mark.parametrize(
    ("entity", "limits", "field"),
    [
        ({}, {"producer_byte_rate": 1.0}, "entity"),
        ({"ip": "host.example"}, {"connection_creation_rate": 1.0}, "entity"),
        ({"user": "ann"}, {"connection_creation_rate": 1.0}, "limits.connection_creation_rate"),
        ({"ip": None}, {"producer_byte_rate": 1.0}, "limits.producer_byte_rate"),
        ({"user": "ann"}, {"producer_byte_rate": 0.0}, "limits.producer_byte_rate"),
        ({"user": "ann"}, {}, "limits"),
        ({"user": "ann"}, {"producer_byte_rate": None}, "limits"),
    ],
)
def test_invalid_input_is_rejected_and_recorded(entity: Any, limits: Any, field: str) -> None:
    with pytest.raises(Rejected) as rejection:
        quotas.set_quota(entity, limits, actor="op")
    assert rejection.value.field == field and not AccessEntry.objects.exists()
    (change,) = Change.objects.all()
    assert (change.verb, change.object_kind, change.outcome, change.after) == ("quota.set", "quota", "refused", limits)


def test_equal_limits_change_nothing() -> None:
    quotas.set_quota({"user": None}, {"producer_byte_rate": 5.0}, actor="op")
    with pytest.raises(Rejected, match="already"):
        quotas.set_quota({"user": None}, {"producer_byte_rate": 5.0}, actor="op")
    assert AccessEntry.objects.get().generation == 1


def test_a_deleted_quota_can_be_set_again_and_a_missing_one_is_not_deleted() -> None:
    row = quotas.set_quota({"user": None, "client-id": "c"}, {"request_percentage": 20.0}, actor="op")
    quotas.delete_quota(row.pk, actor="op", comment="x")
    assert AccessEntry.objects.get().value is None
    with pytest.raises(Rejected, match="There is no quota"):
        quotas.delete_quota(row.pk, actor="op", comment="x")
    assert quotas.set_quota({"user": None, "client-id": "c"}, {"request_percentage": 20.0}, actor="op").pk == row.pk
