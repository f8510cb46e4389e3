"""Dead letters of a share group in a real browser on a local cluster: a member rejects records, an operator finds them, and sends them again, chosen, edited
and by filter. Each is delivered to the group once. One goes to the retry topic, where only the share group processes it."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource, NewTopic, ResourceType
from playwright.sync_api import Browser

from brokerd.sharing.delivery import AcknowledgeType
from tests.browser.conftest import BrowserSession
from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for
from tests.cluster.share_consumer import Delivery, ShareMember

pytestmark = [pytest.mark.browser, pytest.mark.cluster, pytest.mark.timeout(600)]
TOPIC, DLQ, GROUP = "tasks", "dlq.tasks", "workers"
BAD = 4


@pytest.fixture(scope="module")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    devcluster = DevCluster(tmp_path_factory.mktemp("devcluster"), "--brokers", "1")
    try:
        topics = [NewTopic(TOPIC, 2, 1), NewTopic(DLQ, 2, 1, config={"errors.deadletterqueue.group.enable": "true"})]
        for made in devcluster.admin.create_topics(topics).values():
            made.result(60)
        configure(devcluster, "share.auto.offset.reset", "earliest")
        configure(devcluster, "errors.deadletterqueue.topic.name", DLQ)
        yield devcluster
    finally:
        devcluster.end()


def configure(devcluster: DevCluster, name: str, value: str) -> None:
    dynamic, put = ConfigSource.DYNAMIC_TOPIC_CONFIG, AlterConfigOpType.SET
    entry = ConfigEntry(name, value, source=dynamic, incremental_operation=put)
    resource = ConfigResource(ResourceType.GROUP, GROUP, incremental_configs=[entry])
    devcluster.admin.incremental_alter_configs([resource])[resource].result(30)


@pytest.fixture
def session(chromium: Browser, devcluster: DevCluster) -> Iterator[BrowserSession]:
    session = BrowserSession(chromium, devcluster.console.rstrip("/"), devcluster.user, devcluster.password, at="/")
    yield session
    session.context.close()
    assert session.errors == []


def records(devcluster: DevCluster, topic: str) -> list[Any]:
    reader = Consumer({**devcluster.client, "group.id": "look", "enable.auto.commit": False})
    try:
        parts = [TopicPartition(topic, p, 0) for p in (0, 1)]
        total = sum(reader.get_watermark_offsets(p, timeout=20)[1] for p in parts)
        reader.assign(parts)
        found: list[Any] = []
        # A transaction's marker has an offset, too.
        while sum(p.offset for p in reader.position(parts) if p.offset > 0) < total:
            found += [m for m in reader.consume(500, 0.5) if not m.error()]
        return found
    finally:
        reader.close()


def test_an_operator_sends_dead_letters_of_a_share_group_again(session: BrowserSession, devcluster: DevCluster) -> None:
    broken = True

    def decide(d: Delivery) -> AcknowledgeType:
        return AcknowledgeType.REJECT if broken and d.value.startswith("bad") else AcknowledgeType.ACCEPT

    ports = {n: int(address.rpartition(":")[2]) for n, address in enumerate(devcluster.bootstrap.split(","))}
    member = ShareMember(SimpleNamespace(ports=ports), GROUP, TOPIC, decide)  # type: ignore[arg-type]
    try:
        producer = Producer({**devcluster.client, "enable.idempotence": True, "log_level": 0})
        for i in range(2 * BAD):
            value = f"bad {i}" if i % 2 else f"good {i}"
            producer.produce(TOPIC, value, key=f"k{i}", partition=i % 4 // 2, headers={"trace": str(i)})
        assert producer.flush(60) == 0
        wait_for(lambda: len(records(devcluster, DLQ)) == BAD, "the dead letters", 90)
        wait_for(lambda: devcluster.call("GET", f"share-groups/{GROUP}")[0] == 200, "the group to be observed", 90)
        page = session.page
        page.goto(f"/share-groups/{GROUP}/")
        page.click(f"a:text-is('{DLQ}')")
        page.wait_for_selector("h1:text-is('Dead letters')")
        assert page.locator("#list tbody tr").count() == BAD
        session.shot("share-letters-01-list", full=True)
        broken = False

        page.locator("#list tbody tr", has_text=f"{TOPIC}-0@1").locator("input[name=place]").check()
        page.click("button:text-is('Send selected again')")
        page.wait_for_selector("[name=comment]")
        session.shot("share-letters-02-form", full=True)
        page.fill("[name=comment]", "the worker is corrected")
        page.click("button.primary, button.fatal")
        page.wait_for_selector(f"text=1 sent to {TOPIC}.")
        session.shot("share-letters-03-sent", full=True)

        page.locator("#list tbody tr", has_text=f"{TOPIC}-0@3").locator("a:text-is('Edit')").click()
        page.wait_for_selector("[name=value]")
        assert page.input_value("[name=headers]") == "trace: 5" and page.input_value("[name=value]") == "bad 5"
        page.fill("[name=value]", "corrected 5")
        session.shot("share-letters-04-edit", full=True)
        page.fill("[name=comment]", "typo")
        page.click("button:text-is('Send edited record')")
        page.wait_for_selector(f"text=1 sent to {TOPIC}.")

        page.click("a:text-matches('^Send all( [0-9]+)? again$')")
        page.fill("[name=comment]", "the worker is corrected")
        page.click("button:text-is('Send matching dead letters')")
        page.wait_for_selector(f"text=2 sent to {TOPIC}. 2 sent before; not sent again.")
        session.shot("share-letters-05-all", full=True)

        sent = [m for m in records(devcluster, TOPIC) if dict(m.headers()).get("x-retry-resent")]
        assert sorted(m.value() for m in sent) == [b"bad 1", b"bad 3", b"bad 7", b"corrected 5"]
        assert all((m.partition(), len(m.headers())) == (int(m.key()[1:]) % 4 // 2, 2) for m in sent)
        again = {"bad 1", "bad 3", "bad 7", "corrected 5"}
        wait_for(
            lambda: again <= {d.value for d, kind, _ in member.confirmed if kind is AcknowledgeType.ACCEPT}, "them"
        )
        status, _ = devcluster.call("PATCH", f"topics/{TOPIC}", {"configs": {"weir.retry.enable": "true"}})
        assert status == 202
        wait_for(lambda: f"{TOPIC}.retry" in devcluster.admin.list_topics(timeout=20).topics, "the retry topic", 60)
        retrying = ShareMember(SimpleNamespace(ports=ports), GROUP, f"{TOPIC}.retry")  # type: ignore[arg-type]
        page.goto(f"/topics/{DLQ}/dead-letters/")
        page.locator("#list tbody tr", has_text=f"{TOPIC}-1@3").locator("input[name=place]").check()
        page.click("button:text-is('Send selected again')")
        page.select_option("[name=target]", "retry")
        page.fill("[name=comment]", "only the workers failed")
        session.shot("share-letters-06-retry", full=True)
        page.click("button.primary, button.fatal")
        page.wait_for_selector(f"text=1 sent to {TOPIC}.retry.")
        (retried,) = records(devcluster, f"{TOPIC}.retry")
        assert retried.value() == b"bad 7" and dict(retried.headers())["x-retry-group"] == GROUP.encode()
        wait_for(lambda: [d.value for d, _, _ in retrying.confirmed] == ["bad 7"], "its delivery to the share group")
        retrying.leave()
        page.click(f"#list a:text-is('{TOPIC}-1@1')")
        page.wait_for_selector("text=bad 3")
        session.shot("share-letters-07-record", full=True)
    finally:
        member.leave()
