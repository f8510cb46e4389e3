"""Pages and REST reads send no request to a broker or ZooKeeper, except where the brokers alone have the data. A truncated list shows the total."""

from __future__ import annotations

import html
import json
import re
import shlex
import socket
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from tests.unit.console.test_pages import PAGES
from tests.unit.weir.cli.test_app import FakeClient, run_with

READS_BROKERS = (
    "/brokers/1/configs/",
    "/brokers/1/log-directories/",
    "/share-groups/",
    "/transactions/",
    "/hanging-transactions/?topic=",
    "/zookeeper/",
    "/clients/",
    "/permissions/?principal=",
    "/schemas/",
    "/connect/",
)
"""Only the brokers have their settings (a permission depends on their authorizer), log directories, share groups, transactions and clients, only ZooKeeper has its state, only the registry its subjects, and only the workers of Connect their connectors. These pages wait a few seconds at most."""

READINGS = [
    "alerts",
    "alerts/1",
    "incidents",
    "silences",
    "metrics?topics=true",
    "overview",
    "brokers",
    "brokers/1",
    "brokers/1/replicas",
    "brokers/1/restart",
    "brokers/1/drain",
    "leader-elections",
    "leader-elections?topic=orders",
    "topics",
    "topics/orders",
    "topics/orders/configs",
    "topics/orders/partitions",
    "topics/orders/partitions/0",
    "partitions?state=problems",
    "drift",
    "groups",
    "groups/slow-reader",
    "acls",
    "tokens",
    "users",
    "users/billing",
    "masking-rules",
    "alert-thresholds",
    "alert-thresholds/disk_free_low",
    "notification-channels",
    "notification-deliveries",
    "moves",
    "moves/1",
    "moves/1/parts",
    "moves/1/history",
    "moves/1/brokers",
    "moves/1/producer-latency",
    "moves/1/samples",
    "moves/1/plan",
    "plans",
    "plans/1",
    "plans/1/parts",
    "plans/1/difference",
    "restarts",
    "restarts/1",
    "damage-reports",
    "recoveries",
    "recoveries/1",
    "proposals",
    "proposals/1",
    "changes",
    "history?subject=cluster&metric=records_per_s",
    "history?subject=topic:flights&metric=records_per_s&since=2026-01-01T00:00:00Z&until=2026-01-02T00:00:00Z",
    "spark-jobs",
    "spark-jobs/1",
    "spark-jobs/kinds",
    "spark-runs?job_id=1",
    "spark-runs/1",
    "spark-runs/1/log",
    "lake/tables",
    "archives",
    "archives/1",
    "archives/1/batches",
]


def test_no_page_and_no_selector_sends_a_request_to_a_broker_or_zookeeper(
    seeded_cluster: dict[str, Any], operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`/messages/` reads from brokers only after a topic is chosen. Hooks on Python sockets do not see librdkafka's threads, so its clients cannot be
    constructed here."""

    def fail_if_called(*_: Any, **__: Any) -> None:
        raise AssertionError("a read opened a connection")

    monkeypatch.setattr(socket.socket, "connect", fail_if_called)
    monkeypatch.setattr(socket.socket, "connect_ex", fail_if_called)
    for client in ("Consumer", "Producer", "admin.AdminClient"):
        monkeypatch.setattr(f"confluent_kafka.{client}", fail_if_called)
    for address in [*(p for p in PAGES if not p.startswith(READS_BROKERS)), *(f"/api/v1/{r}" for r in READINGS)]:
        assert operator.get(address).status_code == 200, address


def test_topics_that_are_not_created_yet_are_counted_where_they_are_not_listed(
    seeded_cluster: dict[str, Any], operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from controlplane.selectors import topics as selectors
    from controlplane.services import topics

    before = selectors.topic_list().total
    for n in range(5):
        topics.create_topic(f"wait-{n}", actor="alice")
    monkeypatch.setattr(selectors, "WAITING_SHOWN_MAX", 2)
    page = selectors.topic_list(per_page=2)
    assert (page.total, len(page.rows)) == (before + 5, 4)
    assert selectors.topic_list(per_page=2, page=2).total == before + 5, "the total is the same on every page"
    assert "4 more topics wait to be created and are not shown" in operator.get("/topics/").content.decode()
    assert "more topics wait" not in operator.get("/topics/?q=wait-1").content.decode()


def test_drift_of_many_topics_is_read_page_by_page_and_counted(
    seeded_cluster: dict[str, Any], operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from console.views import topics

    for n in range(3):
        seeded_cluster["world"].topic(f"strange-{n}", (1, 2), row=False)
    monkeypatch.setattr(topics, "DRIFT_SHOWN_MAX", 2)
    text = operator.get("/topics/?state=drift").content.decode()
    assert text.count("This topic exists in the cluster") == 2
    assert "more topics are out of sync with their declared state" in text


PAGE_TEXTS: dict[str, str] = {}
"""The rendered pages by address. Several tests read the same text, and the pages take half a minute."""


@pytest.fixture
def page_texts(seeded_cluster: dict[str, Any], operator: Client) -> dict[str, str]:
    if not PAGE_TEXTS:
        PAGE_TEXTS.update({address: operator.get(address).content.decode() for address in PAGES})
    return PAGE_TEXTS


def test_every_page_with_a_form_shows_the_rest_call(page_texts: dict[str, str]) -> None:
    """Only #main counts: theme and log-out are in the frame. A form that only opens a review needs no call, and a form that chooses what one
    user sees neither. The tests of the API check that the calls work."""
    silent = []
    for address, text in page_texts.items():
        own = text.partition('<main id="main"')[2]
        forms = re.findall(r'<form method="post"(?! action="/(?:columns|saved-views)/)', own)
        if forms and 'value="review"' not in own and 'class="curl"' not in own:
            silent.append(address)
    assert not silent


def test_every_rest_call_on_a_page_is_one_of_the_api_and_that_of_the_command_line_beside_it(
    page_texts: dict[str, str],
) -> None:
    """Pages show a call that is not in the API as `weir api`. The tests of the API check the effect of the calls."""
    pairs = set()
    for text in page_texts.values():
        for calls, commands in re.findall(
            r'<details class="curl">.*?<pre[^>]*>(.*?)</pre>\s*<pre[^>]*>(.*?)</pre>', text, flags=re.S
        ):
            pairs.add((html.unescape(calls), html.unescape(commands)))
    assert len(pairs) > 20
    for calls, commands in pairs:
        requests = []
        for call in re.split(r"(?=curl -X )", calls.strip())[1:]:
            words = shlex.split(call)
            body = json.loads(words[words.index("-d") + 1]) if "-d" in words else None
            requests.append((words[2], words[-1].partition("/api/v1")[2], body))
        client = FakeClient()
        for line in commands.strip().splitlines():
            words = shlex.split(line)
            assert words[1] != "api", line
            result = run_with(client, *words[1:3], *(["--yes"] if words[2] == "delete" else []), *words[3:])
            assert result.exit_code == 0, (line, result.output)
        sent = [
            (method, path + ("?" + urlencode(query) if query else ""), body)
            for method, path, query, body in client.requests
        ]
        assert [(m, p.rstrip("/"), b) for m, p, b in sent] == [(m, p.rstrip("/"), b) for m, p, b in requests]
