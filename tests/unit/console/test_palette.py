"""Entries of the command palette: pages, operations and objects by the beginnings of their words."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone, translation

from brokerd.cluster.configs import DELAY_TOPIC, HALF_TOPIC, RETRY_SOURCE
from console import palette, palette_synonyms
from controlplane.models import Broker, ConsumerGroup, Topic
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def labels(query: str, *, may_act: bool = True) -> list[str]:
    return [e.label for e in palette.entries(query, may_act=may_act, user_id=0)]


@pytest.fixture(autouse=True)
def cluster() -> World:
    world = World()
    for name, *partitions in (("flights", (1, 2), (2, 1)), ("flights-2", (1, 2)), ("orders", (2, 1))):
        world.topic(name, *partitions)
    return world


@pytest.mark.parametrize(
    ("query", "label"),
    [
        ("flights", "flights"),
        ("flights", "flights: messages"),
        ("flights", "flights: edit configs"),
        ("retention flights", "flights: edit configs"),
        ("flights configs", "flights: edit configs"),
        ("reset offsets", "Offset resets"),
        ("start broker", "Brokers"),
        ("pause", "Moves, reassignments"),
        ("who changed", "Audit log"),
        ("orders-0", "orders-0"),
        ("orders 0", "orders-0"),
        ("cre top", "Create topic"),
        ("topic create", "Create topic"),
        ("2 drain", "Broker 2: drain"),
        ("BROKER 2", "Broker 2: drain"),
        ("acl", "ACLs"),
        ("reassign", "Moves, reassignments"),
        ("delayed", "Front topics of delayed messages"),
        ("half", "Undecided half messages"),
        ("dead letters", "Dead letter topics"),
        ("dlq", "Dead letter topics"),
        ("routes", "Routes"),
        ("throttle", "Quotas"),
        ("lag", "Consumer groups"),
        ("urp", "Topics with problems"),
        ("decommission", "Brokers"),
        ("scram", "Users"),
        ("slack", "Notifications"),
    ],
)
def test_an_entry_is_found_by_the_beginnings_of_its_words(query: str, label: str) -> None:
    assert label in labels(query)


def test_an_entry_is_found_by_synonyms_of_the_language_and_by_english_ones() -> None:
    with translation.override("zh-hans"):
        assert labels("死信") == labels("dlq")[:1] == ["死信 Topic"]
        assert "消费组" in labels("积压")[:3] and "消费组" in labels("lag")[:3]


def test_a_label_is_before_a_synonym() -> None:
    assert labels("restart")[0] == "Rolling restarts"
    found = labels("transactional")
    assert found and "Transactions" in found
    assert labels("rest")[0] != "API tokens" and labels("rest").index("REST API reference") < labels("rest").index(
        "API tokens"
    )


def test_synonyms_are_of_pages_and_operations() -> None:
    assert set(palette_synonyms.SYNONYMS) <= {name for _, name in (*palette.PAGES, *palette.OPERATIONS)}
    assert all(reverse(name) for _, name, _, _ in palette_synonyms.FEATURES)


def test_an_equal_topic_name_has_the_pages_of_its_front_topics(cluster: World) -> None:
    assert not {"flights: dead letters", "flights: delayed messages", "flights: half messages"} & set(labels("flights"))
    for suffix, marker in ((".dead", RETRY_SOURCE), (".delay", DELAY_TOPIC), (".half", HALF_TOPIC)):
        cluster.topic(f"flights{suffix}", (1, 2))
        Topic.objects.filter(name=f"flights{suffix}").update(configs={marker: "flights"})
    found = labels("flights")
    assert {"flights: dead letters", "flights: delayed messages", "flights: half messages", "flights: clients"} <= set(
        found
    )


def test_an_equal_name_is_first() -> None:
    assert labels("flights-2")[0] == "flights-2" and "flights-1" not in labels("flights-2")
    assert labels("topics")[0] == "Topics"
    assert labels("orders-7") == [], "the partition does not exist"


def test_the_broker_with_the_number_is_before_one_whose_port_begins_with_it() -> None:
    Broker.objects.filter(broker_id=1).update(port=23_092)
    assert labels("broker 2")[0].startswith("Broker 2 ")


def test_an_operation_on_a_group_is_found_by_its_name_and_what_to_do(cluster: World) -> None:
    ConsumerGroup.objects.create(group_id="billing", observed_at=timezone.now())
    entries = palette.entries("reset bill", may_act=True, user_id=0)
    assert [(e.label, e.address) for e in entries] == [("billing: reset offsets", "/offset-resets/new/?group=billing")]
    assert labels("reset bill", may_act=False) == []


def test_a_viewer_is_offered_no_operation() -> None:
    assert "Create topic" not in labels("create", may_act=False) and "Broker 2: drain" not in labels("2", may_act=False)
    assert "Broker 2: configs" in labels("broker 2", may_act=False)


def test_the_list_is_short_and_every_address_is_a_page(operator: Client) -> None:
    for query in ("", "b", "o", "broker", "create", "flights"):
        found = palette.entries(query, may_act=True, user_id=0)
        assert 0 < len(found) <= palette.ENTRIES_MAX
        for entry in found:
            if (
                entry.label.startswith(("Broker", "ZooKeeper", "Clients", "Share", "Transactions", "Hanging"))
                or ": " in entry.label
            ):
                continue  # these pages wait for brokers
            assert operator.get(entry.address).status_code == 200, entry


def test_the_number_of_queries_does_not_depend_on_the_cluster(cluster: World) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            palette.entries("flights-1", may_act=True, user_id=0)
        return len(captured)

    queries()
    few = queries()
    for n in range(20):
        cluster.topic(f"flights-1{n}", (1, 2))
    many = queries()
    for n in range(20, 60):
        cluster.topic(f"flights-1{n}", (1, 2))
    # A list that is longer than its page needs one more query, for its count.
    assert queries() == many <= few + 4 and few < 25


def test_words_match_at_their_beginning_only() -> None:
    label: Any = "Create ACL"
    assert palette.matches(label, ["acl"]) and palette.matches(label, []) and not palette.matches(label, ["reate"])
