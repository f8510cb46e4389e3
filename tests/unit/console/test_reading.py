"""What reading costs, and what it never does: no broker is asked, no cap is silent."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from django.test import Client

from tests.unit.console.test_pages import PAGES

READINGS = [
    "alerts", "metrics?topics=true", "overview", "brokers", "brokers/1", "brokers/1/replicas", "brokers/1/restart", "brokers/1/drain", "topics", "topics/orders", "topics/orders/configs",
    "topics/orders/partitions", "topics/orders/partitions/0", "partitions?only=problems", "drift", "groups", "groups/slow-reader", "acls", "moves", "moves/1", "moves/1/parts", "moves/1/story", "moves/1/brokers", "moves/1/waits",
    "moves/1/samples", "moves/1/plan", "plans", "plans/1", "plans/1/parts", "plans/1/difference", "restarts", "restarts/1", "findings", "recoveries", "recoveries/1", "proposals",
    "proposals/1", "changes", "archives", "archives/1", "archives/1/batches",
]  # fmt: skip


def test_no_page_and_no_reading_asks_a_broker_or_zookeeper(
    seeded: dict[str, Any], operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records alone lie on brokers: /messages/ reads nothing before a partition is named. Threads of librdkafka are not seen by Python's sockets:
    its clients cannot even be made."""

    def asks(*_: Any, **__: Any) -> None:
        raise AssertionError("a reading asked somebody")

    monkeypatch.setattr(socket.socket, "connect", asks)
    monkeypatch.setattr(socket.socket, "connect_ex", asks)
    for client in ("Consumer", "Producer", "admin.AdminClient"):
        monkeypatch.setattr(f"confluent_kafka.{client}", asks)
    monkeypatch.setattr("controlplane.selectors.messages.Consumer", asks)
    for address in [*PAGES, *(f"/api/v1/{r}" for r in READINGS)]:
        assert operator.get(address).status_code == 200, address


def test_topics_that_wait_to_be_created_are_counted_where_they_are_not_shown(
    seeded: dict[str, Any], operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from controlplane.selectors import topics as selectors
    from controlplane.services import topics

    before = selectors.topic_list().total
    for n in range(5):
        topics.create_topic(f"wait-{n}", who="alice")
    monkeypatch.setattr(selectors, "WAITING_SHOWN_MAX", 2)
    page = selectors.topic_list(per_page=2)
    assert (page.total, len(page.rows)) == (before + 5, 4)
    assert selectors.topic_list(per_page=2, page=2).total == before + 5, "the total is the same on every page"
    assert "4 more topics wait to be created than are shown" in operator.get("/topics/").content.decode()
    assert "more topics wait" not in operator.get("/topics/?q=wait-1").content.decode()


def test_drift_of_many_topics_costs_a_page_and_is_counted(
    seeded: dict[str, Any], operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from console.views import topics

    for n in range(3):
        seeded["world"].topic(f"strange-{n}", (1, 2), row=False)
    monkeypatch.setattr(topics, "DRIFT_SHOWN_MAX", 2)
    text = operator.get("/topics/?only=drift").content.decode()
    assert text.count('<div class="note amber">The cluster has this topic') == 2
    assert "more topics differ" in text


def test_where_something_can_be_done_the_rest_call_stands_beside_it(seeded: dict[str, Any], operator: Client) -> None:
    """In the page's own part: the theme and the way out are in its frame. A form that only leads to a review is none. Whether the call does the
    same, tests of the API say."""
    silent = []
    for address in PAGES:
        own = operator.get(address).content.decode().partition('<main id="main"')[2]
        if '<form method="post"' in own and 'value="review"' not in own and 'class="curl"' not in own:
            silent.append(address)
    assert not silent
