"""Names are read from where the view reads them, and from the rows that a path names."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from controlplane.domain.offset_reset_types import ResetSpec, ResetTarget
from controlplane.domain.roles import ALL_BROKERS
from controlplane.models import AccessEntry, Acl, OffsetReset, Plan, PlanChunk, RestartStep, RollingRestart
from controlplane.services import request_resources as names
from controlplane.services.request_resources import RequestNames

pytestmark = pytest.mark.django_db


def fields(**values: Any) -> RequestNames:
    return RequestNames({}, values, {})


def path(**values: Any) -> RequestNames:
    return RequestNames(values, {}, {})


def test_a_reset_and_a_move_have_their_group_and_topics() -> None:
    reset = OffsetReset.objects.create(
        group_id="g", actor="root", spec=ResetSpec(ResetTarget.EARLIEST), computed_at=timezone.now()
    )
    assert names.group_of_reset(RequestNames({"reset_id": reset.pk}, {}, {})) == ["g"]
    assert names.group_of_reset(RequestNames({"reset_id": reset.pk + 1}, {}, {})) == []
    assert names.topics_of_move(RequestNames({"move_id": 1}, {}, {})) == []


@pytest.mark.parametrize(
    ("scope", "topics"),
    [
        ({"kind": "topic", "topic": "a", "brokers": [1]}, ["a"]),
        ({"kind": "replication_factor", "topic": "a", "replication_factor": 2}, ["a"]),
        ({"version": 1, "partitions": [{"topic": t, "partition": 0, "replicas": [1]} for t in "bab"]}, ["a", "b"]),
        ({"kind": "drain", "broker": 1}, []),
        ({"kind": "rebalance"}, []),
        ({"kind": "nonsense"}, []),
        (None, []),
    ],
)
def test_a_scope_has_the_topics_that_it_names(scope: Any, topics: list[str]) -> None:
    assert names.topics_of_scope(RequestNames({}, {"scope": scope}, {})) == topics
    assert names.topics_of_scope(RequestNames({}, {"scope": scope, "override": True}, {})) == []


def test_brokers_of_a_request() -> None:
    of_list = names.brokers_of_field("brokers")
    assert of_list(fields(brokers=[1, "2"])) == ["1", "2"]
    assert of_list(fields(brokers=None)) == of_list(fields()) == of_list(fields(brokers=[])) == [ALL_BROKERS]
    assert names.broker_or_all(path(broker_id=3)) == ["3"]
    assert names.broker_or_all(RequestNames({"broker_id": 3}, {"cluster_wide": "true"}, {})) == [ALL_BROKERS]
    restart = RollingRestart.objects.create(actor="root", by_supervisor=False)
    for place, broker in enumerate((2, 1)):
        RestartStep.objects.create(restart=restart, place=place, broker_id=broker)
    assert names.brokers_of_restart(path(restart_id=restart.pk)) == ["2", "1"]


@pytest.mark.parametrize(
    ("bindings", "targets"),
    [
        ([{"target": "a"}, {"target": " b "}, {"match": {}}, 7], ["a", "b"]),
        ('[{"target": "a"}]', ["a"]),
        ("[", []),
        (None, []),
        ([{"target": 7}], ["7"]),
    ],
)
def test_topics_of_a_route(bindings: Any, targets: list[str]) -> None:
    assert names.targets_of_route(fields(bindings=bindings)) == targets
    assert names.source_of_route(fields(source=7)) == ["7"] and names.source_of_route(fields()) == []


def test_the_user_of_a_principal_that_a_request_gives_or_removes() -> None:
    AccessEntry.objects.create(kind="route", key="r", generation=1, value={"principal": "User:a"}, changed_by="root")

    def users(principal: Any, route: str = "r") -> list[str]:
        return list(names.user_of_route(RequestNames({"name": route}, {"principal": principal}, {})))

    assert names.user_of_route(path(name="r")) == []
    assert users("User:a") == users(" User:a ") == users("", "other") == users(None, "other") == []
    assert users("User:b") == ["b"] and users("b") == ["b"]
    assert users("") == users(None) == ["*"]
    assert names.user_of_route(fields(principal="User:a")) == ["a"]


def test_quotas_and_acls_have_the_names_that_lists_show() -> None:
    assert names.entity_of_field(fields(entity={"user": "a", "client-id": None})) == ["user a, client-id <default>"]
    assert names.entity_of_field(fields(entity={"user": 7})) == names.entity_of_field(fields(entity="a")) == []
    quota = AccessEntry.objects.create(kind="quota", key='{"user":"a"}', value={}, changed_by="root")
    assert names.entity_of_quota(path(quota_id=quota.pk)) == ["user a"]
    prefixed = fields(resource_type="topic", resource_name="pay.", pattern_type="prefixed")
    assert names.acl_of_fields(prefixed) == ["topic:pay.*"]
    assert names.acl_of_fields(fields(resource_type="topic", resource_name="pay")) == ["topic:pay"]
    assert names.acl_of_fields(fields(resource_name="pay")) == []
    acl = Acl.objects.create(
        resource_type="group", resource_name="g", principal="User:a", operation="read", permission="allow"
    )
    assert names.acl_of_path(path(acl_id=acl.pk)) == ["group:g"]


def test_a_plan_has_its_name_and_the_topics_of_its_parts() -> None:
    plan = Plan.objects.create(name="pay drain", actor="root", digest="0", parts=2, copies=2)
    for number, topic in enumerate("ba"):
        PlanChunk.objects.create(plan=plan, number=number, parts=[["id", topic, 0, [1], [2], 1, None]])
    assert names.name_of_plan(path(plan_id=plan.pk)) == ["pay drain"] and names.name_of_plan(path(plan_id=0)) == []
    assert names.topics_of_plan(path(plan_id=plan.pk)) == ["a", "b"]
    assert names.topics_of_moved_plan(path(plan_id=plan.pk, verb="move")) == ["a", "b"]
    assert names.topics_of_moved_plan(path(plan_id=plan.pk, verb="drop")) == []
