"""An offset reset in a real browser on a local cluster: form, preview, a commit in between, result, undo, a wait that ends in place. Kafka's admin
client verifies the committed offsets.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition
from playwright.sync_api import Browser

from tests.browser.conftest import BrowserSession
from tests.browser.test_operator_tasks import wait_until
from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for
from tests.cluster.test_offset_reset import PARTITIONS, RECORDS, TOPIC, Member, commit, committed_offsets, end_offsets

pytestmark = [pytest.mark.browser, pytest.mark.cluster, pytest.mark.timeout(600)]
GROUP = "billing"
STATE = "document.querySelector('#reset-page .head .st').innerText.trim()"


@pytest.fixture(scope="module")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    devcluster = DevCluster(tmp_path_factory.mktemp("devcluster"))
    try:
        devcluster.topic(TOPIC, partitions=PARTITIONS, replication_factor=2)
        devcluster.fill(TOPIC, RECORDS)
        yield devcluster
    finally:
        devcluster.end()


@pytest.fixture
def session(chromium: Browser, devcluster: DevCluster) -> Iterator[BrowserSession]:
    session = BrowserSession(chromium, devcluster.console.rstrip("/"), devcluster.user, devcluster.password, at="/")
    yield session
    session.context.close()
    # The rejected reset answers 409, which Chromium reports.
    assert all("409" in e for e in session.errors), session.errors


def test_an_operator_resets_offsets_and_undoes_it(session: BrowserSession, devcluster: DevCluster) -> None:
    page, end = session.page, end_offsets(devcluster)
    commit(devcluster, GROUP, *(TopicPartition(TOPIC, i, end[i] - 10, metadata="m") for i in range(PARTITIONS)))
    before = committed_offsets(devcluster, GROUP)
    wait_for(lambda: devcluster.call("GET", f"groups/{GROUP}")[0] == 200, "the group to be observed")
    page.goto(f"/groups/{GROUP}/")
    page.click("text=Reset offsets")
    page.wait_for_selector("[name=target]")
    session.shot("reset-01-form", full=True)
    page.select_option("[name=target]", "shift")
    page.fill("[name=value]", "-25")
    page.fill("[name=topics]", TOPIC)
    page.click("button.primary")
    page.wait_for_selector("#reset-page")
    assert page.locator("#list tr.diff").count() == PARTITIONS
    session.shot("reset-02-preview", full=True)

    commit(devcluster, GROUP, TopicPartition(TOPIC, 1, end[1] - 3))
    page.fill("[name=comment]", "replay")
    page.click("button.primary")
    page.wait_for_selector(".note li")
    assert f"expected {end[1] - 10}, found {end[1] - 3}" in page.inner_text(".note")
    session.shot("reset-03-rejected", full=True)

    commit(devcluster, GROUP, TopicPartition(TOPIC, 1, end[1] - 10, metadata="m"))
    page.fill("[name=comment]", "replay")
    page.click("button.primary")
    wait_until(session, f"{STATE} === 'applied'", "the reset to be applied")
    session.shot("reset-04-applied", full=True)
    assert {k: v[0] for k, v in committed_offsets(devcluster, GROUP).items()} == {
        (TOPIC, i): end[i] - 35 for i in range(PARTITIONS)
    }

    page.click("button:text-is('Undo')")
    page.wait_for_selector("h1:has-text('Undo of')")
    page.fill("[name=comment]", "mistake")
    page.click("button.primary")
    wait_until(session, f"{STATE} === 'applied'", "the undo to be applied")
    assert committed_offsets(devcluster, GROUP) == before
    page.goto(f"/offset-resets/?group={GROUP}")
    assert page.locator("#list tbody tr").count() == 2
    session.shot("reset-05-list", full=True)


def test_a_reset_waits_until_the_group_is_empty(session: BrowserSession, devcluster: DevCluster) -> None:
    page, group = session.page, "waiting"
    commit(devcluster, group, *(TopicPartition(TOPIC, i, 5) for i in range(PARTITIONS)))
    member = Member(devcluster, group)
    try:
        wait_for(
            lambda: (found := devcluster.call("GET", f"groups/{group}"))[0] == 200 and found[1]["row"]["member_count"],
            "the member to be observed",
        )
        page.goto(f"/groups/{group}/")
        session.shot("reset-06-members", full=True)
        page.click("#members >> text=Remove")
        page.wait_for_selector("h1:text-is('Remove member')")
        assert "joins the group again" in page.inner_text(".note")
        session.shot("reset-07-remove", full=True)
        page.goto(f"/offset-resets/new/?group={group}")
        page.click("button.primary")
        page.wait_for_selector("#reset-page")
        page.fill("[name=comment]", "replay")
        page.fill("[name=wait_minutes]", "10")
        page.click("button.primary")
        wait_until(session, f"{STATE}.startsWith('waits')", "the reset to wait")
        session.shot("reset-08-waiting", full=True)
        session.live()
    finally:
        member.leave()
    wait_until(session, f"{STATE} === 'applied'", "the page to change in place")
    assert {v[0] for v in committed_offsets(devcluster, group).values()} == {0}
