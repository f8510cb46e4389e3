"""Steps of a document: nothing changes by absence, a safe order, and rejections that name the command that would help."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from brokerd.cluster.typed_json import MalformedJson
from controlplane.domain.cluster_document import parse
from controlplane.domain.document_plan import (
    STEPS_MAX,
    CurrentResources,
    DocumentStep,
    FieldChange,
    StepAction,
    StepOutcome,
    StepResult,
    changed_since,
    difference,
    digest_of,
    outcomes_from_json,
    step_from_json,
    step_to_json,
)
from controlplane.domain.document_values import (
    AclValues,
    DocumentValues,
    ResourceId,
    ResourceKind,
    RouteValues,
    TopicValues,
    UserValues,
)
from tests.unit.controlplane.domain.test_cluster_document import ACL, DOCUMENT, ROUTE

TOPIC: ResourceId = (ResourceKind.TOPIC, "flights")
VALUE = TopicValues(3, 2, {"cleanup.policy": "compact", "a": "b"})
NOTHING = CurrentResources({}, {}, {})


def present(value: TopicValues = VALUE, owner: str | None = None) -> CurrentResources:
    return CurrentResources({TOPIC: value}, {} if owner is None else {TOPIC: owner}, {})


def topic(**fields: Any) -> Any:
    return parse({"owner": "payments", "topics": [{"name": "flights", **fields}]})


def permissions(values: Iterable[DocumentValues | None]) -> list[str]:
    return [v.permission for v in values if isinstance(v, AclValues)]


def steps_of(document: Any, now: CurrentResources, **options: bool) -> list[DocumentStep]:
    found = difference(document, now, **options)
    assert found.rejections == []
    return found.steps


def rejections(document: Any, now: CurrentResources, **options: bool) -> list[str]:
    return [p.detail for p in difference(document, now, **options).rejections]


def test_creations_have_a_safe_order() -> None:
    document = parse({**DOCUMENT, "acls": [ACL, {**ACL, "permission": "deny"}]})
    steps = steps_of(document, NOTHING)
    assert [(s.kind.value, s.action.value) for s in steps] == [
        ("topic", "create"),
        ("acl", "create"),
        ("acl", "create"),
        ("quota", "create"),
        ("route", "create"),
    ]
    assert permissions(s.desired for s in steps) == ["deny", "allow"]


def test_deletions_come_last_and_in_the_opposite_order() -> None:
    document = parse({**DOCUMENT, "acls": [ACL, {**ACL, "permission": "deny"}], "routes": [ROUTE]})
    created = steps_of(document, NOTHING)
    now = CurrentResources(
        {(s.kind, s.key): s.desired for s in created if s.desired}, {(s.kind, s.key): "payments" for s in created}, {}
    )
    other = parse({"owner": "payments", "topics": [{"name": "new"}]})
    steps = steps_of(other, now, prune=True)
    assert [(s.kind.value, s.action.value) for s in steps] == [
        ("topic", "create"),
        ("route", "delete"),
        ("quota", "delete"),
        ("acl", "delete"),
        ("acl", "delete"),
        ("topic", "delete"),
    ]
    assert permissions(s.before for s in steps) == ["allow", "deny"]
    assert [s.action for s in steps_of(other, now)] == [StepAction.CREATE], "absence alone deletes nothing"


def test_only_named_fields_change_and_null_removes_a_config() -> None:
    (step,) = steps_of(topic(partitions=6, configs={"cleanup.policy": None, "retention.ms": 5}), present())
    assert step.action is StepAction.ALTER and step.changes == [
        FieldChange("partitions", 3, 6),
        FieldChange("configs.cleanup.policy", "compact", None),
        FieldChange("configs.retention.ms", None, "5"),
    ]


def test_an_equal_resource_is_managed_once_and_then_unchanged() -> None:
    document = topic(partitions=3, configs={"cleanup.policy": "compact"})
    assert [s.action for s in steps_of(document, present())] == [StepAction.MANAGE]
    assert steps_of(document, present(owner="payments")) == []
    for owner in (None, "ops"):
        assert steps_of(parse({"topics": [{"name": "flights"}]}), present(owner=owner)) == [], "nothing is claimed"


def test_a_resource_of_another_owner_is_rejected_unless_it_is_taken_over() -> None:
    assert "managed by the document of 'ops'" in rejections(topic(), present(owner="ops"))[0]
    assert [s.action for s in steps_of(topic(), present(owner="ops"), take_over=True)] == [StepAction.MANAGE]
    released = steps_of(parse({"topics": [{"name": "flights"}]}), present(owner="ops"), take_over=True)
    assert [s.action for s in released] == [StepAction.MANAGE], "a document without an owner releases it"


def test_partitions_and_replicas_are_never_changed_silently() -> None:
    fewer, move = rejections(topic(partitions=2, replication_factor=3), present())
    assert "cannot be reduced" in fewer
    assert (
        'weir moves create --scope \'{"kind": "replication_factor", "topic": "flights", "replication_factor": 3}\''
        in move
    )


def test_other_rejections() -> None:
    assert "Without an owner" in rejections(parse({}), NOTHING, prune=True)[0]
    assert "follows topic f" in rejections(topic(), CurrentResources({}, {}, {"flights": "f"}))[0]
    route = parse({"routes": [ROUTE]})
    desired = route.resources[0].desired
    assert isinstance(desired, RouteValues)
    was = replace(desired, source="other")
    assert "never changes" in rejections(route, CurrentResources({route.resources[0].id: was}, {}, {}))[0]


def test_a_principal_of_a_route_changes_only_if_the_document_has_one() -> None:
    plain, named = parse({"routes": [ROUTE]}), parse({"routes": [{**ROUTE, "principal": "User:payments"}]})
    (resource,) = plain.resources
    assert isinstance(resource.desired, RouteValues)
    without, with_one = resource.desired, replace(resource.desired, principal="User:payments")
    for document, before, expected in (
        (plain, with_one, []),
        (named, with_one, []),
        (named, without, [("", "User:payments")]),
        (parse({"routes": [{**ROUTE, "principal": None}]}), with_one, [("User:payments", "")]),
        (parse({"routes": [{**ROUTE, "principal": ""}]}), without, []),
    ):
        steps = steps_of(document, CurrentResources({resource.id: before}, {}, {}))
        assert [(c.before, c.after) for s in steps for c in s.changes] == expected
    many = parse({"topics": [{"name": f"t{i}"} for i in range(STEPS_MAX + 1)]})
    assert "Divide it" in rejections(many, NOTHING)[0]


def test_the_digest_covers_what_the_steps_were_made_from() -> None:
    one = steps_of(topic(partitions=6), present())
    assert digest_of(one) == digest_of(steps_of(topic(partitions=6), present()))
    assert digest_of(one) != digest_of(steps_of(topic(partitions=6), present(replace(VALUE, partitions=4))))
    assert changed_since(one[0], VALUE) == []
    assert changed_since(one[0], replace(VALUE, partitions=4)) == [FieldChange("partitions", 3, 4)]
    assert FieldChange("configs.a", "b", None) in changed_since(one[0], None)


def test_a_step_is_read_from_a_row_as_it_was_written() -> None:
    document = parse({**DOCUMENT, "routes": [ROUTE, {**ROUTE, "name": "r2", "principal": "User:a"}]})
    created = steps_of(document, present())
    for step in [*created, *steps_of(parse({"owner": "payments"}), present(owner="payments"), prune=True)]:
        stored = json.loads(json.dumps(step_to_json(step)))
        assert step_from_json(stored) == step and digest_of([step_from_json(stored)]) == digest_of([step])
    assert [("principal" in (step_to_json(s)["desired"] or {})) for s in created[-2:]] == [False, True]


def test_a_step_that_an_earlier_version_stored_is_read() -> None:
    user = {"kind": "user", "key": "a", "action": "manage", "changes": []}
    step = step_from_json({**user, "before": {"mechanisms": ["SCRAM-SHA-256"]}, "desired": {"mechanisms": None}})
    assert (step.before, step.desired) == (UserValues(("SCRAM-SHA-256",)), UserValues(None))
    with pytest.raises(MalformedJson, match="mechanisms: invalid value 3, expected an array"):
        step_from_json({**user, "before": {"mechanisms": 3}, "desired": None})


def test_a_user_is_neither_created_nor_given_a_mechanism() -> None:
    document = parse({"users": [{"name": "a", "mechanisms": ["SCRAM-SHA-512"]}]})
    had = CurrentResources({(ResourceKind.USER, "a"): UserValues(("SCRAM-SHA-256",))}, {}, {})
    assert "no SCRAM user 'a'" in rejections(document, NOTHING)[0]
    assert "The user has SCRAM-SHA-256." in rejections(document, had)[0]


def test_an_outcome_is_read_back_from_a_row() -> None:
    outcome = StepOutcome(StepResult.FAILED, "Changed.", {"text": "Changed."})
    assert outcomes_from_json({"3": outcome.to_json()}) == {3: outcome}
    assert outcomes_from_json({"0": ["done", ""]}) == {0: StepOutcome(StepResult.DONE)}, "without a phrase"
    with pytest.raises(ValueError, match="lost"):
        outcomes_from_json({"0": ["lost", ""]})
