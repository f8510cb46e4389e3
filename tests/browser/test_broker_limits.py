"""Client quotas and broker configs in a real browser on a local cluster. Kafka's clients verify what the brokers enforce."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource
from playwright.sync_api import Browser

from tests.browser.conftest import BrowserSession
from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.cluster, pytest.mark.timeout(600)]
CLIENT = "limited"


@pytest.fixture(scope="module")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    devcluster = DevCluster(tmp_path_factory.mktemp("devcluster"))
    try:
        devcluster.topic("limits", partitions=3, replication_factor=2)
        yield devcluster
    finally:
        devcluster.end()


@pytest.fixture
def session(chromium: Browser, devcluster: DevCluster) -> Iterator[BrowserSession]:
    session = BrowserSession(chromium, devcluster.console.rstrip("/"), devcluster.user, devcluster.password, at="/")
    yield session
    session.context.close()
    assert not session.errors, session.errors


def test_an_operator_limits_a_client_and_sees_its_use(session: BrowserSession, devcluster: DevCluster) -> None:
    page = session.page
    page.goto("/quotas/")
    page.click("text=Create quota")
    page.select_option("[name=applies_to]", "client-id")
    page.fill("[name=client_id]", CLIENT)
    page.fill("[name=producer_byte_rate]", "0.1")
    page.click("button.primary")
    page.wait_for_selector("text=Current use")
    wait_for(lambda: devcluster.get("quotas")["rows"][0]["applied"], "the quota to be in the metadata log", 60)
    throttled: list[int] = []
    producer = Producer({**devcluster.client, "client.id": CLIENT, "throttle_cb": lambda e: throttled.append(1)})

    def produce() -> bool:
        for _ in range(200):
            producer.produce("limits", b"x" * 1_000)
        producer.flush(1)
        page.reload()
        return bool(throttled) and page.locator("td:has-text('producer_byte_rate')").count() > 0

    wait_for(produce, "the producer to be throttled and its rate to be reported", 60)
    session.shot("quota", full=True)
    page.goto("/quotas/")
    page.wait_for_selector("text=client-id limited")
    session.shot("quotas-list", full=True)
    page.click("#list >> text=Delete")
    page.fill("[name=comment]", "no longer needed")
    page.click("main button[type=submit]")
    page.wait_for_selector("text=No client quotas.")


def test_an_operator_compares_brokers_and_changes_a_dynamic_config(
    session: BrowserSession, devcluster: DevCluster
) -> None:
    page = session.page
    page.goto("/brokers/1/configs/?other=2")
    page.wait_for_selector("text=Different")
    session.shot("broker-configs", full=True)
    page.goto("/brokers/1/configs/?other=2&only=different")
    page.wait_for_selector("tr:has-text('log.dirs') >> text=different")
    session.shot("broker-configs-different", full=True)
    page.goto("/brokers/1/configs/edit/?name=max.connections")
    page.fill("[name=value]", "4321")
    page.fill("[name=comment]", "a leak of connections")
    session.shot("broker-config-edit", full=True)
    page.click("main button[type=submit]")
    page.wait_for_selector("text=Dynamic value now")
    session.shot("broker-config-review", full=True)
    page.click("main button[type=submit]")
    page.wait_for_selector("text=max.connections changed")
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")

    def is_applied() -> bool:
        (found,) = devcluster.admin.describe_configs([resource]).values()
        return str(found.result(timeout=20)["max.connections"].value) == "4321"

    wait_for(is_applied, "the broker to apply the config", 60)
    page.reload()
    page.wait_for_selector("text=dynamic, this broker")
    session.shot("broker-config-dynamic", full=True)
