"""Broker operations on a local cluster of four brokers, in a real browser: a drain by mouse, a move and a restart by keyboard, and a corrupt
replica that is found, shown and re-replicated. Kafka's Metadata, the disks and the processes verify the results, not the tested page.

Run by `make browser`, not by `make test`: a drain copies about eighty replicas. Does not cover: load (`make rolling-restart`), failures during a
move (`make moves-matrix`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import BrowserSession
from tests.browser.test_operator_tasks import wait_until
from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(300)]
TOPIC, PARTITIONS = "cargo", 4
SEGMENT = 100_000


@pytest.fixture(scope="module")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    devcluster = DevCluster(tmp_path_factory.mktemp("devcluster"), "--brokers", "4")
    try:
        devcluster.topic(
            TOPIC,
            partitions=PARTITIONS,
            replication_factor=2,
            configs={"segment.bytes": str(SEGMENT)},
            assignment={str(i): [i % 4 + 1, (i + 1) % 4 + 1] for i in range(PARTITIONS)},
        )
        devcluster.topic("lopsided", partitions=40, replication_factor=1, assignment={str(i): [1] for i in range(40)})
        for _ in range(16):  # small batches: a segment is closed between two of them
            devcluster.fill(TOPIC, 250)
        yield devcluster
    finally:
        devcluster.end()


@pytest.fixture
def session(chromium: Browser, devcluster: DevCluster) -> Iterator[BrowserSession]:
    session = BrowserSession(chromium, devcluster.console.rstrip("/"), devcluster.user, devcluster.password, at="/")
    yield session
    session.context.close()
    assert not session.errors, session.errors


def replicas_by_partition(devcluster: DevCluster) -> dict[tuple[str, int], list[int]]:
    """Replicas of every partition of every topic, as a Kafka client sees them."""
    topics = devcluster.admin.list_topics(timeout=20).topics
    return {(name, i): list(p.replicas) for name, t in topics.items() for i, p in t.partitions.items()}


def partition_dirs(devcluster: DevCluster, broker_id: int) -> list[str]:
    """Partition directories of a broker."""
    data = Path(devcluster.folder) / f"broker-{broker_id}" / "data"
    return sorted(f.name for f in data.iterdir() if f.is_dir() and not f.name.endswith("-delete"))


def keys(session: BrowserSession, *pressed: str) -> None:
    for key in pressed:
        session.page.keyboard.press(key)
        session.page.wait_for_timeout(80)


def tab_to(session: BrowserSession, selector: str) -> None:
    """Move the focus with the Tab key."""
    for _ in range(120):
        if session.page.evaluate(f"document.activeElement && document.activeElement.matches({selector!r})"):
            return
        session.page.keyboard.press("Tab")
    raise AssertionError(f"{selector} is not reachable with the Tab key")


def in_sync(devcluster: DevCluster) -> bool:
    o = devcluster.get("overview")
    return bool(o["health"]["word"] == "healthy" and (o["age_s"] or 99) < 5)


def test_a_broker_is_drained_by_mouse_until_it_is_proven_empty(session: BrowserSession, devcluster: DevCluster) -> None:
    page = session.page
    wait_for(lambda: in_sync(devcluster), "a healthy cluster", 60)
    assert any(4 in replicas for replicas in replicas_by_partition(devcluster).values())
    page.goto("/brokers/")
    page.click("#list a.name >> nth=3")
    page.wait_for_url("**/brokers/4/")
    session.shot("verbs-01-broker")
    page.click(r"main >> text=/^Drain \(/")
    page.wait_for_url("**/drain/")
    assert "The broker is cordoned" in page.inner_text("main")
    session.shot("verbs-02-drain-review")
    page.fill("#id_comment", "to the junkyard")
    page.click("main button.primary")
    page.wait_for_url("**/moves/*/")
    session.live()
    session.shot("verbs-03-drain-running")
    wait_until(
        session, "document.querySelector('[data-f=state]').innerText.includes('done')", "the end of the drain", 120
    )
    assert not any(4 in replicas for replicas in replicas_by_partition(devcluster).values())
    page.goto("/brokers/4/")
    session.live()
    wait_until(
        session,
        "document.querySelector('#drain').innerText.includes('Empty:')",
        "the broker to be reported as empty",
        60,
    )
    wait_for(lambda: not partition_dirs(devcluster, 4), "the last partition directory to be deleted")
    session.shot("verbs-04-drained")
    devcluster.topic("joining", partitions=6, replication_factor=3)
    assert not any(4 in replicas for replicas in replicas_by_partition(devcluster).values()), (
        "a new topic has no replica on a cordoned broker"
    )
    page.click("text=Uncordon and restore leadership")
    page.wait_for_selector("text=uncordoned and its leadership restored")
    session.shot("verbs-05-back")
    wait_for(
        lambda: (b := devcluster.get("brokers/4")) and not b["cordoned"] and b["leads"],
        "the broker to be in service again",
    )


def test_a_whole_move_without_a_mouse(session: BrowserSession, devcluster: DevCluster) -> None:
    page = session.page
    wait_for(lambda: in_sync(devcluster), "a healthy cluster", 60)
    before = replicas_by_partition(devcluster)[TOPIC, 0]
    wanted = [4, before[0]]
    keys(session, "g", "m")
    page.wait_for_url("**/moves/")
    keys(session, "n")
    page.wait_for_url("**/moves/new/**")
    wait_until(session, "document.activeElement && document.activeElement.name === 'topic'", "the field to be ready")
    page.keyboard.type(TOPIC)
    keys(session, "Enter")
    page.wait_for_selector("#p0")
    session.shot("verbs-06-keyboard-choose")
    wait_until(
        session,
        "document.activeElement === document.body || document.activeElement.id === 'main'",
        "the page to have the keys",
    )
    keys(session, "j", "x")
    assert page.is_checked("#p0")
    tab_to(session, "#choice button.primary")
    keys(session, "Enter")
    page.wait_for_selector("input[name=r0]")
    wait_until(session, "document.activeElement && document.activeElement.name === 'r0'", "the first field to be ready")
    keys(session, "Control+a")
    page.keyboard.type(",".join(map(str, wanted)))
    keys(session, "Enter")
    page.wait_for_url("**step=review**")
    session.shot("verbs-07-keyboard-review")
    tab_to(session, "#id_comment")
    page.keyboard.type("without a mouse")
    tab_to(session, "button[value=start]")
    keys(session, "Enter")
    page.wait_for_url("**/moves/*/")
    session.live()
    wait_until(session, "document.querySelector('[data-f=state]').innerText.includes('done')", "the move's end", 90)
    session.shot("verbs-08-keyboard-done")
    assert replicas_by_partition(devcluster)[TOPIC, 0] == wanted


def test_a_broker_is_restarted_by_keyboard_as_a_new_process(session: BrowserSession, devcluster: DevCluster) -> None:
    page = session.page
    wait_for(lambda: in_sync(devcluster), "a healthy cluster", 60)
    alone = [i for (t, i), replicas in replicas_by_partition(devcluster).items() if t == TOPIC and len(replicas) < 2]
    assert not alone, "every partition has another replica"
    pids = devcluster.pids()
    keys(session, "g", "b")
    page.wait_for_url("**/brokers/")
    keys(session, "j", "j", "x")
    session.shot("verbs-09-restart-choose")
    keys(session, "s")
    page.wait_for_url("**/restarts/new/**")
    session.shot("verbs-10-restart-review")
    tab_to(session, "#id_comment")
    page.keyboard.type("a new kernel")
    tab_to(session, "main form button.primary")
    keys(session, "Enter")
    page.wait_for_url("**/restarts/*/")
    session.live()
    row = wait_for(
        lambda: (r := devcluster.get("restarts")["rows"][0]) and r["finished_at"] and r, "the end of the restart", 120
    )
    assert row["state"] == "done" and row["brokers"] == [2], row
    wait_until(
        session, "document.querySelector('#restart-page .head').innerText.includes('done')", "the page to show it", 30
    )
    session.shot("verbs-11-restarted")
    after = devcluster.pids()
    assert after["broker-2"] != pids["broker-2"]
    assert {n: p for n, p in after.items() if n != "broker-2"} == {n: p for n, p in pids.items() if n != "broker-2"}


def test_a_corrupt_replica_is_found_shown_and_re_replicated(session: BrowserSession, devcluster: DevCluster) -> None:
    page = session.page
    wait_for(lambda: in_sync(devcluster), "a healthy cluster", 60)
    leader = devcluster.leaders(TOPIC)[1]
    follower = next(b for b in replicas_by_partition(devcluster)[TOPIC, 1] if b != leader)
    segments = sorted((Path(devcluster.folder) / f"broker-{follower}" / "data" / f"{TOPIC}-1").glob("*.log"))
    assert len(segments) > 2, "closed segments exist"
    with segments[0].open("r+b") as file:
        file.seek(300)
        byte = file.read(1)[0]
        file.seek(300)
        file.write(bytes([byte ^ 1]))
    found = wait_for(lambda: devcluster.get("damage-reports?state=open")["rows"], "the damage to be found", 120)
    assert [(f["topic"], f["partition"], f["broker_id"], f["kind"]) for f in found] == [(TOPIC, 1, follower, "corrupt")]
    page.goto("/moves/?tab=damage")
    page.wait_for_selector("text=is damaged")
    session.shot("verbs-12-damage")
    page.click("#list td.acts a")
    page.fill("#id_comment", "bits have flipped")
    page.click("main button.primary")
    page.wait_for_url(f"**/topics/{TOPIC}/1/")
    wait_for(lambda: not devcluster.get("damage-reports?state=open")["rows"], "the report to be resolved", 60)
    wait_for(lambda: devcluster.get("recoveries")["rows"][0]["state"] == "done", "the end of the recovery", 60)
    session.shot("verbs-13-recovered")
    again = min((Path(devcluster.folder) / f"broker-{follower}" / "data" / f"{TOPIC}-1").glob("*.log"))
    whole = min((Path(devcluster.folder) / f"broker-{leader}" / "data" / f"{TOPIC}-1").glob("*.log"))
    first = min(again.stat().st_size, whole.stat().st_size)
    assert again.read_bytes()[:first] == whole.read_bytes()[:first]


def test_a_rebalance_proposal_opens_the_review_of_a_move(session: BrowserSession, devcluster: DevCluster) -> None:
    page = session.page
    page.goto("/brokers/rebalance/?goal=replicas")
    assert "max deviation from mean" in page.inner_text("main")
    session.shot("verbs-14-rebalance", full=True)
    page.click(r"main >> text=/^Review \(/")
    page.wait_for_url("**kind=rebalance**")
    proposal = devcluster.post("rebalance", {"goals": ["replicas"]})
    assert page.locator("#list tbody tr").count() == min(200, proposal["changes_total"]) > 0
    session.shot("verbs-15-rebalance-review")


def run_move(devcluster: DevCluster, scope: dict[str, object]) -> None:
    """Run a move of this scope to its end over REST."""
    made = devcluster.post("moves", {"scope": scope, "start": True, "comment": "verbs"})
    done = wait_for(
        lambda: (m := devcluster.get(f"moves/{made['id']}")) and m["finished_at"] and m, "the move's end", 120
    )
    assert done["state"] == "done", done


def test_a_broker_is_filled_and_a_replication_factor_changed_by_rest(devcluster: DevCluster) -> None:
    wait_for(lambda: in_sync(devcluster), "a healthy cluster", 60)
    run_move(devcluster, {"kind": "replication_factor", "topic": TOPIC, "replication_factor": 3})
    assert {len(r) for (t, _), r in replicas_by_partition(devcluster).items() if t == TOPIC} == {3}
    run_move(devcluster, {"kind": "replication_factor", "topic": TOPIC, "replication_factor": 2})
    assert {len(r) for (t, _), r in replicas_by_partition(devcluster).items() if t == TOPIC} == {2}
    before = sum(4 in r for r in replicas_by_partition(devcluster).values())
    run_move(devcluster, {"kind": "fill", "broker": 4})
    after = {b: sum(b in r for r in replicas_by_partition(devcluster).values()) for b in (1, 2, 3, 4)}
    assert after[4] > before and after[4] >= sum(after.values()) // 4 - 1, after
    assert len(partition_dirs(devcluster, 4)) == after[4]
