"""Deletion of many quotas and users: only the previewed ones, each with its result and its change."""

from __future__ import annotations

import pytest

from controlplane.models import AccessEntry, Change
from controlplane.services import Rejected, bulk_access, quotas, users
from controlplane.services.bulk_access import BulkAccessKind
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
QUOTAS, USERS = BulkAccessKind.QUOTAS, BulkAccessKind.USERS


@pytest.fixture
def keys(world: World) -> list[str]:
    for name in ("a", "b"):
        users.create_user(name, password="long enough for a test", actor="ada")
    rows = [quotas.set_quota({"user": n}, {"producer_byte_rate": 5e6}, actor="ada") for n in ("a", "b")]
    return [str(row.pk) for row in rows]


def test_quotas_have_their_limits_in_the_preview(keys: list[str]) -> None:
    rows = bulk_access.preview(QUOTAS, [keys[1], "99999", keys[0], "x", keys[1]])
    assert [(r.key, r.name) for r in rows] == [(keys[1], "user b"), (keys[0], "user a")]
    assert rows[0].lost == "producer_byte_rate 5,000,000 bytes/s"
    rows = bulk_access.preview(USERS, ["b", "nobody"])
    assert [(r.key, r.lost) for r in rows] == [("b", "SCRAM-SHA-256, SCRAM-SHA-512")]


def test_each_row_has_its_result_and_its_change(keys: list[str]) -> None:
    results = bulk_access.delete(QUOTAS, [keys[0], "99999"], actor="ada", comment="left")
    assert [(r.name, r.outcome.value) for r in results] == [("user a", "done"), ("99999", "rejected")]
    results = bulk_access.delete(USERS, ["a", "nobody"], actor="ada", comment="left")
    assert [(r.name, r.outcome.value) for r in results] == [("a", "done"), ("nobody", "rejected")]
    assert "nobody" in results[1].detail
    assert not AccessEntry.objects.filter(kind="scram", key__endswith=":a", value__isnull=False).exists()
    assert AccessEntry.objects.filter(kind="scram", key__endswith=":b", value__isnull=False).count() == 2
    verbs = set(Change.objects.filter(actor="ada", comment="left").values_list("verb", flat=True))
    assert {"quota.delete", "scram.delete"} <= verbs


def test_too_many_rows_and_a_missing_reason_are_rejected(keys: list[str]) -> None:
    many = [str(i) for i in range(bulk_access.ROWS_MAX + 1)]
    with pytest.raises(Rejected, match="Narrow the filter"):
        bulk_access.preview(QUOTAS, many)
    with pytest.raises(Rejected):
        bulk_access.delete(QUOTAS, keys, actor="ada", comment=" ")
    assert len(bulk_access.preview(QUOTAS, keys)) == 2
