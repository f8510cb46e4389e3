"""Each bulk operation over REST: its dry run and the result of each object."""

from __future__ import annotations

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.domain.alert_types import AlertKind
from controlplane.models import AccessEntry, Alert, Change, ConsumerGroup, Move, MovePartition, Topic
from controlplane.models.change import Outcome
from controlplane.services import bulk_groups, quotas, users
from tests.unit.controlplane.api.test_access_rules import objects as objects
from tests.unit.controlplane.api.test_bulk import outcomes, post
from tests.unit.controlplane.api.test_bulk import topics as topics
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_configs_of_the_topics_of_a_filter_are_previewed_and_changed(topics: World, operator: APIClient) -> None:
    body = {"filter": {"query": "orders"}, "configs": {"retention.ms": "1000"}}
    dry = post(operator, "topic-configs", {**body, "dry": True})
    assert (dry["dry"], dry["total"], dry["outcomes"]) == (True, 2, {"planned": 1, "unchanged": 1})
    first = dry["rows"][0]
    assert (first["key"], first["changes"]) == ("orders", [{"name": "retention.ms", "now": None, "new": "1000"}])
    assert not Change.objects.exists() and not Topic.objects.get(name="orders").configs
    generations = {r["key"]: r["generation"] for r in dry["rows"]}
    Topic.objects.filter(name="orders").update(generation=9)
    given = {**body, "comment": "disk", "if_generations": generations}
    assert outcomes(post(operator, "topic-configs", given)) == {"orders": "rejected", "orders-2": "unchanged"}
    done = post(operator, "topic-configs", {**body, "comment": "disk"})
    assert outcomes(done) == {"orders": "requested", "orders-2": "unchanged"}
    assert Topic.objects.get(name="orders").configs == {"retention.ms": "1000"}
    assert Change.objects.filter(verb="topic.alter", comment="disk", object_name="orders").count() == 1


def test_named_topics_are_deleted_and_an_unknown_one_is_reported(topics: World, operator: APIClient) -> None:
    body = {"names": ["orders", "nowhere", "orders"], "comment": "old"}
    report = post(operator, "topic-deletion", body)
    assert outcomes(report) == {"orders": "requested", "nowhere": "not_found"} and report["total"] == 2
    assert set(Topic.objects.filter(deleted_at=None).values_list("name", flat=True)) == {"orders-2", "other"}


def test_only_empty_groups_are_deleted(world: World, operator: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, members in (("a", 0), ("b", 2), ("c", 0)):
        ConsumerGroup.objects.create(
            group_id=name, state="Empty", member_count=members, observed_at=timezone.now(), coordinator=1
        )
    asked: list[str] = []

    def delete(group_id: str, *, actor: str, comment: str) -> Outcome:
        asked.append(group_id)
        return Outcome.CONFIRMED

    monkeypatch.setattr(bulk_groups, "delete_group", delete)
    report = post(operator, "group-deletion", {"filter": {}, "dry": True})
    assert outcomes(report) == {"a": "planned", "b": "rejected", "c": "planned"} and not asked
    report = post(operator, "group-deletion", {"filter": {}, "comment": "left"})
    assert outcomes(report) == {"a": "done", "b": "rejected", "c": "done"} and asked == ["a", "c"]


def test_limits_of_quotas_are_changed_and_quotas_and_users_deleted(world: World, operator: APIClient) -> None:
    rows = [quotas.set_quota({"user": n}, {"producer_byte_rate": 5e6}, actor="ada") for n in ("a", "b")]
    address = quotas.set_quota({"ip": None}, {"connection_creation_rate": 9}, actor="ada")
    keys = [str(r.pk) for r in (*rows, address)]
    body = {"filter": {}, "limits": {"producer_byte_rate": 1e6, "consumer_byte_rate": 2e6}}
    dry = post(operator, "quota-limits", {**body, "dry": True})
    assert dry["outcomes"] == {"planned": 2, "rejected": 1} and dry["total"] == 3
    assert {"name": "producer_byte_rate", "now": "5000000", "new": "1000000"} in dry["rows"][1]["changes"]
    done = post(operator, "quota-limits", {**body, "comment": "noisy"})
    assert outcomes(done) == {keys[0]: "done", keys[1]: "done", keys[2]: "rejected"}
    assert AccessEntry.objects.get(pk=rows[0].pk).value == {"producer_byte_rate": 1e6, "consumer_byte_rate": 2e6}
    assert post(operator, "quota-limits", {**body, "comment": "noisy"})["outcomes"] == {"unchanged": 2, "rejected": 1}
    deleted = post(operator, "quota-deletion", {"filter": {"entity_type": "user"}, "comment": "left"})
    assert outcomes(deleted) == {keys[0]: "done", keys[1]: "done"}
    users.create_user("carl", password="long enough for a test", actor="ada")
    report = post(operator, "user-deletion", {"filter": {"mechanism": "SCRAM-SHA-512"}, "comment": "left"})
    assert outcomes(report) == {"carl": "done"}


def test_alerts_are_acknowledged_without_a_reason(world: World, operator: APIClient) -> None:
    since = timezone.now()
    made = [Alert.objects.create(kind=AlertKind.BROKER_DOWN, subject=str(i), text="x", since=since) for i in (1, 2)]
    Alert.objects.filter(pk=made[0].pk).update(acknowledged_by="bob", acknowledged_at=since)
    report = post(operator, "alert-acknowledgement", {"filter": {"query": "broker"}})
    assert outcomes(report) == {str(made[0].pk): "rejected", str(made[1].pk): "done"}
    assert Alert.objects.get(pk=made[1].pk).acknowledged_by == "alice"


def test_throttles_of_moves_are_changed(objects: None, operator: APIClient) -> None:
    Move.objects.filter(pk=2).update(state="done", finished_at=timezone.now())
    Topic.objects.filter(name="team.a").update(generation=1)
    MovePartition.objects.filter(move=1).update(topic_id=Topic.objects.get(name="team.a").id)
    body = {"names": ["1", "2"], "throttle_bytes_per_s": 5_000_000}
    dry = post(operator, "move-throttle", {**body, "dry": True})
    assert outcomes(dry) == {"1": "planned", "2": "rejected"}
    assert outcomes(post(operator, "move-throttle", {**body, "comment": "slow"})) == {"1": "done", "2": "rejected"}
    assert Move.objects.get(pk=1).throttle_bytes_per_s == 5_000_000
    report = post(operator, "move-throttle", {"filter": {"state": "unfinished"}, **body, "names": None, "comment": "a"})
    assert outcomes(report) == {"1": "unchanged"}
