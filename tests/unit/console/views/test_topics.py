"""The pages of topics: filters, tabs, and configs that differ from another topic."""

from __future__ import annotations

import re
from typing import Any
from unittest.mock import Mock

import pytest
from django.test import Client
from django.utils import timezone

from console.card_labels import column_labels
from console.views import topics as views
from console.views.topics import COLUMNS
from controlplane.models import Alert
from tests.unit.controlplane.world import World


@pytest.fixture
def two_topics(world: World) -> World:
    world.topic("flights", (1, 2), configs={"retention.ms": "5"})
    world.topic("orders", (1, 2), configs={"retention.ms": "7", "segment.ms": "9"})
    return world


def test_topics_are_filtered_and_exported(two_topics: World, operator: Client) -> None:
    two_topics.offline("orders", 0)
    page = operator.get("/topics/?state=problems").content.decode()
    assert 'href="/topics/orders/"' in page and 'href="/topics/flights/"' not in page
    assert 'href="/topics/flights/"' in operator.get("/topics/?state=nonsense").content.decode()
    response: Any = operator.get("/topics/?format=csv&q=fli")
    text = b"".join(response.streaming_content).decode() if response.streaming else response.content.decode()
    assert "flights" in text and "orders" not in text


def test_topics_with_problems_are_sorted_by_severity(two_topics: World, operator: Client) -> None:
    """A topic that rejected producers was behind dozens of topics that only lacked a replica."""
    two_topics.topic("accounts", (1, 2))
    two_topics.topic("zones", (1, 2), (1, 2), configs={"min.insync.replicas": "2"})
    for name in ("accounts", "flights"):
        two_topics.put(name, 0, isr=(1,))
    two_topics.put("zones", 0, isr=(1,))
    two_topics.offline("orders", 0)
    page = operator.get("/topics/?state=problems").content.decode()
    names = re.findall(r'data-subject="topic:([a-z]+)"', page)
    assert names == ["orders", "zones", "accounts", "flights"]
    ascending = operator.get("/topics/?state=problems&sort=severity").content.decode()
    assert re.findall(r'data-subject="topic:([a-z]+)"', ascending)[-1] == "orders"


def test_a_topic_that_is_not_managed_can_only_be_adopted(two_topics: World, operator: Client) -> None:
    """Its page had buttons to edit, move and delete it beside a note about a row of the database."""
    page = operator.get("/topics/flights/").content.decode()
    assert "/topics/flights/alter/" in page and "kind=partitions" in page and "Adopt this topic" not in page
    assert ">Delete<" in page
    two_topics.topic("stray", (1, 2), row=False)
    page = operator.get("/topics/stray/").content.decode()
    assert "is not managed by Weir" in page and "Adopt this topic" in page
    assert "/topics/stray/alter/" not in page and "kind=partitions" not in page and ">Delete<" not in page
    assert "Adopt this topic" in operator.get("/topics/?state=drift").content.decode()


def test_long_drift_is_cut_and_counted(two_topics: World, operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("x1", "x2", "x3"):
        two_topics.topic(name, (1, 2), row=False)
    monkeypatch.setattr(views, "DRIFT_SHOWN_MAX", 1)
    render = Mock(wraps=views.render_page)
    monkeypatch.setattr(views, "render_page", render)
    operator.get("/topics/?state=drift")
    context = render.call_args.args[2]
    assert (len(context["drift"]), context["drift_more"]) == (1, 2)


def open_alert(kind: str, subject: str, text: str, **parts: str) -> None:
    values = {"severity": "degraded", "do": "", "since": timezone.now(), **parts}
    Alert.objects.create(kind=kind, subject=subject, text=text, **values)


def test_the_page_leads_to_the_open_alerts_of_the_topic(two_topics: World, viewer: Client) -> None:
    """An alert led to a topic, and the page of the topic did not name it."""
    open_alert("half_expired", "flights", "a half message expired")
    open_alert("anomaly", "x", "unusual rate", metric="records_per_s", object_kind="topic", object_name="flights")
    open_alert("dead_letters_missing", "y", "letters are missing", group_id="mail", topic="flights")
    open_alert("partitions_offline", "", "1 partition is offline")
    open_alert("group_stopped", "flights", "a group of this name")
    page = viewer.get("/topics/flights/").content.decode()
    texts = ("a half message expired", "unusual rate", "letters are missing")
    assert "Open alerts" in page and all(text in page for text in texts)
    assert "1 partition is offline" not in page and "a group of this name" not in page
    two_topics.offline("orders", 0)
    other = viewer.get("/topics/orders/").content.decode()
    assert "1 partition is offline" in other and not any(text in other for text in texts)


@pytest.mark.parametrize("tab", ["partitions", "configs", "groups", "changes", "nonsense"])
def test_each_tab_of_a_topic_opens(two_topics: World, operator: Client, tab: str) -> None:
    assert operator.get(f"/topics/flights/?tab={tab}").status_code == 200
    assert operator.get("/topics/none/").status_code == 404


def test_configs_are_compared_with_another_topic(two_topics: World) -> None:
    def names(other: str, only: str) -> list[str]:
        return [c.name for group in views.compared_configs("flights", other, only).groups for c, _ in group.rows]

    assert names("", "changed") == ["retention.ms"]
    assert names("orders", "different") == ["retention.ms", "segment.ms"]
    found = views.compared_configs("flights", "orders", "")
    assert (found.changed, found.different, found.problem) == (1, 2, "")
    assert {c.name: v for group in found.groups for c, v in group.rows}["retention.ms"] == "7"
    missing = views.compared_configs("flights", "none", "different")
    assert (
        missing.problem == "There is no topic none."
        and missing.different == 0
        and sum(len(group.rows) for group in missing.groups) > 20
    )


def test_all_configs_have_headings_and_a_filter_and_overrides_alone_have_not(
    two_topics: World, operator: Client
) -> None:
    whole = operator.get("/topics/flights/?tab=configs").content.decode()
    few = operator.get("/topics/flights/?tab=configs&only=changed").content.decode()
    assert [mark in whole for mark in ('scope="rowgroup"', 'id="name-filter"')] == [True, True]
    assert [mark in few for mark in ('scope="rowgroup"', 'id="name-filter"')] == [False, False]
    assert (
        whole.index(">retention.ms<") < whole.index(">Retention and compaction<") < whole.index(">delete.retention.ms<")
    )


def test_a_partition_under_min_isr_names_the_limit_and_the_brokers_to_start(world: World, viewer: Client) -> None:
    """The ISR of "2 of 3" did not show why writes were rejected."""
    world.topic("flights", (1, 2, 3), configs={"min.insync.replicas": "3"})
    note = "2 replicas are in sync, but min.insync.replicas is 3."
    assert note not in viewer.get("/topics/flights/0/").content.decode()
    world.put("flights", 0, isr=(1, 2))
    page = viewer.get("/topics/flights/0/").content.decode()
    assert note in page and "NOT_ENOUGH_REPLICAS" in page
    assert "/topics/flights/alter/?config=min.insync.replicas" in page and "Start these brokers" not in page
    world.down(3)
    assert "Start these brokers" in viewer.get("/topics/flights/0/").content.decode()


def test_the_tables_of_a_topic_a_broker_and_a_group_are_above_their_charts(
    seeded_cluster: dict[str, Any], viewer: Client
) -> None:
    for address in ("/topics/orders/", "/brokers/1/", "/groups/billing/"):
        page = viewer.get(address).content.decode()
        assert 0 < page.index('id="list"') < page.index('id="history"'), address
    assert 'id="history"' not in viewer.get("/topics/orders/?tab=groups").content.decode()


def test_partitions_are_added_from_their_table(seeded_cluster: dict[str, Any], operator: Client) -> None:
    page = operator.get("/topics/orders/").content.decode()
    assert 'href="/topics/orders/alter/"' in page[page.index('id="list"') :] and "Add partitions" in page
    assert "Add partitions" not in operator.get("/topics/orders/?tab=configs").content.decode()
    assert "Add partitions" not in operator.get("/topics/__consumer_offsets/").content.decode()


def test_the_columns_that_a_user_can_hide_are_those_of_the_table(two_topics: World, operator: Client) -> None:
    """The classes that hide columns count them. A column that is no longer in the table shifted the others."""
    head = re.findall(r"<thead>(.*?)</thead>", operator.get("/topics/").content.decode(), re.DOTALL)[0]
    assert column_labels(head)[1:] == ["Topic", *COLUMNS.split("|")]
