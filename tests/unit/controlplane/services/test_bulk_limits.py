"""Limits of many quotas and throttles of many moves: previews, results, rejections."""

from __future__ import annotations

import pytest

from controlplane.models import AccessEntry, Change, Move
from controlplane.services import Rejected, bulk_limits, quotas
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_a_limit_that_an_entity_cannot_have_rejects_only_its_quota(world: World) -> None:
    rows = [
        quotas.set_quota({"user": "a"}, {"producer_byte_rate": 5e6}, actor="ada"),
        quotas.set_quota({"ip": None}, {"connection_creation_rate": 9}, actor="ada"),
    ]
    keys, limits = [str(r.pk) for r in rows], {"producer_byte_rate": None, "consumer_byte_rate": 1e6}
    shown = bulk_limits.preview_quotas([*keys, "99999", "x"], limits)
    assert [r.key for r in shown] == keys and [bool(r.problem) for r in shown] == [False, True]
    assert shown[0].changes == [("producer_byte_rate", 5e6, None), ("consumer_byte_rate", None, 1e6)]
    results = bulk_limits.set_quotas(keys, limits, actor="ada", comment="noisy")
    assert [r.outcome.value for r in results] == ["done", "rejected"]
    assert AccessEntry.objects.get(pk=rows[0].pk).value == {"consumer_byte_rate": 1e6}
    assert Change.objects.filter(comment="noisy").count() == 2
    again = bulk_limits.set_quotas(keys[:1], limits, actor="ada", comment="noisy")
    assert [r.outcome.value for r in again] == ["unchanged"]


def test_invalid_limits_are_all_named_and_nothing_is_begun(world: World) -> None:
    assert set(bulk_limits.limit_problems({"x": 1.0, "producer_byte_rate": 0.0, "consumer_byte_rate": 1.0})) == {
        "x",
        "producer_byte_rate",
    }
    assert bulk_limits.limit_problems({"connection_creation_rate": 5.0}) == {}
    for limits in ({}, {"x": 1.0}):
        with pytest.raises(Rejected):
            bulk_limits.set_quotas([], limits, actor="ada", comment="a")
    with pytest.raises(Rejected):
        bulk_limits.throttle_moves([], 5, actor="ada", comment="a")
    with pytest.raises(Rejected, match="Narrow the filter"):
        bulk_limits.preview_throttles([str(n) for n in range(bulk_limits.MOVES_MAX + 1)], None)


def test_a_move_without_partitions_has_no_topics(db: None) -> None:
    move = Move.objects.create(actor="a")
    assert bulk_limits.topics_of_moves([str(move.pk)]) == []
    shown = bulk_limits.preview_throttles([str(move.pk)], 5_000_000)
    assert shown[0].changes == [("throttle_bytes_per_s", None, 5_000_000)]
