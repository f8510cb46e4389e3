"""The quota of a measured rate, and the limits of an entity."""

from __future__ import annotations

from brokerd.authz.quotas import Quotas
from brokerd.cluster.quota_entities import KEYS, PRODUCE, entity_key, entity_of
from controlplane.domain.quota import UNITS, applies_to, candidates, entity_text, limits_of, quota_of


def test_the_quota_of_a_bucket_is_the_one_that_the_broker_applies() -> None:
    entities: list[dict[str, str | None]] = [
        {"user": "alice", "client-id": "a"},
        {"user": "alice", "client-id": None},
        {"user": "alice"},
        {"user": None, "client-id": "a"},
        {"user": None, "client-id": None},
        {"user": None},
        {"client-id": "a"},
        {"client-id": None},
    ]
    for n in range(len(entities)):
        limits = {entity_key(e): {PRODUCE: float(i + 1)} for i, e in enumerate(entities) if i >= n}
        broker = Quotas()
        broker.set(limits.items())
        found = broker.limit(PRODUCE, "alice", "a")
        assert found is not None
        bucket = entity_of(found[0])
        assert quota_of(bucket, PRODUCE, limits) == entity_key(entities[n])
        assert applies_to(entities[n], bucket) and entity_key(entities[n]) in candidates(bucket)


def test_a_quota_with_another_limit_is_no_candidate() -> None:
    bucket = {"user": "alice"}
    limits = {entity_key(bucket): {"consumer_byte_rate": 1.0}, entity_key({"user": None}): {PRODUCE: 2.0}}
    assert quota_of(bucket, PRODUCE, limits) == '{"user":null}'
    assert quota_of(bucket, "request_percentage", limits) is None
    assert not applies_to({"user": None}, {"client-id": "a"}) and not applies_to({"user": "bob"}, bucket)


def test_every_quota_of_the_brokers_has_a_unit_and_unknown_ones_are_left_out() -> None:
    assert set(UNITS) == {*KEYS, "connection_creation_rate"}
    shown = limits_of({"request_percentage": 50, "of.another.version": 1, PRODUCE: 5})
    assert [(limit.quota, limit.value, limit.unit) for limit in shown] == [
        (PRODUCE, 5.0, "bytes/s"),
        ("request_percentage", 50.0, "%"),
    ]


def test_an_entity_is_named_by_its_types() -> None:
    assert entity_text({"client-id": None, "user": "ann"}) == "user ann, client-id <default>"
