"""The Messages page in a real browser on a local cluster: a search by key with and without the key index, a live tail."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Browser

from tests.browser.conftest import BrowserSession
from tests.browser.test_operator_tasks import wait_until
from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.cluster, pytest.mark.timeout(600)]
INDEXED, PLAIN = "orders", "plain"
RECORDS, KEYS = 3_000, 20


@pytest.fixture(scope="module")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    devcluster = DevCluster(tmp_path_factory.mktemp("devcluster"), "--controllers", "1")
    try:
        devcluster.topic(
            INDEXED,
            partitions=2,
            replication_factor=1,
            configs={"weir.index.keys": "true", "segment.bytes": "100000"},
        )
        devcluster.topic(PLAIN, partitions=2, replication_factor=1)
        # Small batches, since a segment contains at least one whole batch.
        producer = Producer({**devcluster.client, "acks": "all", "batch.size": 10_000})
        for topic in (INDEXED, PLAIN):
            for i in range(RECORDS):
                producer.produce(topic, f'{{"n": {i}, "fill": "{"x" * 200}"}}', key=f"order-{i % KEYS}")
                producer.poll(0)
        assert producer.flush(90) == 0
        yield devcluster
    finally:
        devcluster.end()


@pytest.fixture
def session(chromium: Browser, devcluster: DevCluster) -> Iterator[BrowserSession]:
    session = BrowserSession(chromium, devcluster.console.rstrip("/"), devcluster.user, devcluster.password, at="/")
    yield session
    session.context.close()
    assert not session.errors, session.errors


def numbers(session: BrowserSession) -> list[int]:
    """The number in the value of each shown record."""
    values = session.page.locator("#list table.records summary").all_inner_texts()
    return [int(value.split('"n": ')[1].split(",")[0]) for value in values]


def is_indexed(devcluster: DevCluster) -> bool:
    found = devcluster.get(f"topics/{INDEXED}/records?key=absent")
    return found["complete"] and all(p["segments_scanned"] == 1 for p in found["partitions"])


def test_a_search_by_key_uses_the_index(session: BrowserSession, devcluster: DevCluster) -> None:
    wait_for(lambda: is_indexed(devcluster), "an index of each closed segment")
    page = session.page
    expected = list(range(RECORDS - KEYS + 7, -1, -KEYS))
    page.goto("/messages/")
    page.fill("#id_topic", INDEXED)
    page.click("details.more summary")
    page.fill("#id_key", "order-7")
    page.click("main button.primary")
    page.wait_for_url("**key=order-7**")
    wait_until(session, "document.querySelectorAll('#list table.records summary').length === 50", "the newest records")
    assert numbers(session) == expected[:50]
    progress = page.inner_text("#progress")
    assert "50 records shown" in progress and "by index, 2 scanned" in progress, progress
    session.shot("messages-key-index")
    page.click("#progress details summary")
    session.shot("messages-key-index-reach", full=True)
    permalink = page.get_attribute("text=Permalink", "href")
    for shown in (100, 150):
        page.click("#progress [rel=next]")
        wait_until(
            session, f"document.querySelectorAll('#list table.records summary').length === {shown}", "older records"
        )
    assert numbers(session) == expected
    page.click("#progress [rel=next]")  # the limit was reached with the last record
    wait_until(session, "document.querySelector('#progress b').innerText === 'Complete'", "the end of the search")
    assert numbers(session) == expected and "0 more found" in page.inner_text("#progress")
    page.set_viewport_size({"width": 390, "height": 844})
    session.shot("messages-key-index-narrow")
    page.set_viewport_size({"width": 1440, "height": 900})

    # A permalink finds the same records after another one was produced.
    time.sleep(1.1)  # the end of its time range is a whole second
    producer = Producer(devcluster.client)
    producer.produce(INDEXED, '{"n": 9999, "later": true}', key="order-7")
    assert producer.flush(60) == 0
    page.goto(f"/messages/?topic={INDEXED}&key=order-7&limit=1")
    assert numbers(session) == [9999]
    assert permalink is not None
    page.goto(permalink)
    assert numbers(session) == expected[:50]


def test_a_search_without_an_index_says_so_and_offers_it(session: BrowserSession) -> None:
    page = session.page
    page.goto(f"/messages/?topic={PLAIN}&key=order-7&start=latest&limit=20")
    assert numbers(session) == list(range(RECORDS - KEYS + 7, RECORDS - 20 * KEYS, -KEYS))
    session.shot("messages-key-scan")
    page.click("text=Turn on the index")
    page.wait_for_selector("[id='c:weir.index.keys']")
    assert page.url.endswith("/alter/#c:weir.index.keys")


def test_a_filter_expression_is_evaluated_and_a_wrong_one_is_rejected_beside_its_field(session: BrowserSession) -> None:
    page = session.page
    page.goto(f"/messages/?topic={PLAIN}&start=earliest")
    page.click("details.more summary")
    page.fill("#id_expression", "value.n >= 100 && value.n < 103 || key == 'none'")
    page.click("main button.primary")
    page.wait_for_url("**expression=**")
    wait_until(session, "document.querySelectorAll('#list table.records summary').length === 3", "the matching records")
    assert sorted(numbers(session)) == [100, 101, 102]
    session.shot("messages-expression")
    page.reload()
    assert page.input_value("#id_expression").startswith("value.n >= 100"), "the expression is in the address"
    page.fill("#id_expression", "value.n >=")
    page.click("main button.primary")
    page.wait_for_selector("main .error")
    assert page.locator("#list table.records summary").count() == 0
    session.shot("messages-expression-rejected")
    session.errors = [e for e in session.errors if "400" not in e]


# -- live tail ---------------------------------------------------------------------------------------------------------------


def produce(devcluster: DevCluster, values: list[str], key: str = "live") -> None:
    producer = Producer({**devcluster.client, "acks": "all"})
    for value in values:
        producer.produce(PLAIN, value, key=key)
        producer.poll(0)
    assert producer.flush(60) == 0


STATE = "document.querySelector('[data-tail-state]')?.innerText"
ROWS = "[...document.querySelectorAll('#tail table.records td.value')].map((cell) => cell.innerText.trim())"


def audited_changes(devcluster: DevCluster, verb: str) -> list[dict[str, Any]]:
    return [c for c in devcluster.get("changes?object_kind=records")["rows"] if c["verb"] == verb]


def test_a_live_tail_shows_new_records_pauses_and_ends(session: BrowserSession, devcluster: DevCluster) -> None:
    page = session.page
    page.goto(f"/messages/?topic={PLAIN}&value_contains=needle")
    session.live()
    page.click("text=Live tail")
    page.wait_for_url("**tail=on**")
    wait_until(session, f"{STATE} === 'Live'", "the tail to be live")
    assert page.locator("#tail table.records tbody tr").count() == 1, "it starts now: no old records"
    produce(devcluster, ["hay", "needle 1", "hay", "needle 2"])
    wait_until(session, f"{ROWS}.join() === 'needle 2,needle 1'", "the matching records, newest first")
    session.shot("messages-tail")

    page.keyboard.press("Space")
    wait_until(session, f"{STATE} === 'Paused'", "the pause")
    produce(devcluster, ["needle 3", "needle 4", "needle 5"])
    status = "document.querySelector('[data-tail-status]').innerText"
    wait_until(session, f"{status}.includes('3 records skipped since the pause')", "the skipped records")
    session.shot("messages-tail-paused")
    page.keyboard.press("Space")
    wait_until(session, f"{STATE} === 'Live'", "the tail to be live again")
    produce(devcluster, ["needle 6"])
    wait_until(session, f"{ROWS}.join() === 'needle 6,needle 2,needle 1'", "the records after the pause")

    # More than the page can show is counted.
    produce(devcluster, [f"needle many {i}" for i in range(1_000)])
    wait_until(session, f"{status}.includes('not shown: more than 50/s')", "the records that are not shown")
    page.set_viewport_size({"width": 390, "height": 844})
    session.shot("messages-tail-narrow")
    page.set_viewport_size({"width": 1440, "height": 900})

    page.click("#tail [data-tail=stop]")
    wait_until(session, f"{STATE} === 'Ended'", "the end")
    wait_for(lambda: audited_changes(devcluster, "records.tail_end"), "the end in the audit log")
    (start,), (end,) = audited_changes(devcluster, "records.tail"), audited_changes(devcluster, "records.tail_end")
    assert start["after"]["value_contains"] == "needle" and end["after"]["end"] == "stopped"
    assert end["after"]["scanned"] + end["after"]["unread"] >= 1_008

    # A page that is left ends its tail.
    page.click("#tail [data-tail=start]")
    wait_until(session, f"{STATE} === 'Live'", "the tail to be live again")
    page.click(".rail [data-go=t]")
    page.wait_for_url("**/topics/**")
    wait_for(lambda: len(audited_changes(devcluster, "records.tail_end")) == 2, "the end of the second tail")
