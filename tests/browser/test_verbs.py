"""Verbs on brokers on a living house of four, in a real browser: a whole drain by mouse, a whole move and a restart by keyboard, and a damaged copy
that is found, shown and mended. What is true is asked of Kafka's Metadata, of the disks and of the processes, never of the page that is judged.
Run by `make browser`, not by `make test`: a drain copies some eighty replicas. Does not check: load (`make rolling-restart`), deaths in the middle (`make moves-matrix`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import Desk
from tests.browser.test_walk import until
from tests.cluster.house import House
from tests.cluster.local import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(300)]
TOPIC, PARTITIONS = "cargo", 4
SEGMENT = 100_000


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    house = House(tmp_path_factory.mktemp("house"), "--brokers", "4")
    try:
        house.topic(
            TOPIC, partitions=PARTITIONS, replication_factor=2, configs={"segment.bytes": str(SEGMENT)},
            assignment={str(i): [i % 4 + 1, (i + 1) % 4 + 1] for i in range(PARTITIONS)},
        )  # fmt: skip
        house.topic("lopsided", partitions=40, replication_factor=1, assignment={str(i): [1] for i in range(40)})
        for _ in range(16):  # small batches: a segment is closed between two of them
            house.fill(TOPIC, 250)
        yield house
    finally:
        house.down()


@pytest.fixture
def desk(chromium: Browser, house: House) -> Iterator[Desk]:
    desk = Desk(chromium, house.console.rstrip("/"), house.user, house.password)
    yield desk
    desk.context.close()
    assert not desk.complaints, desk.complaints


def placed(house: House) -> dict[tuple[str, int], list[int]]:
    """Replicas of every partition of every topic, as a Kafka client sees them."""
    topics = house.admin.list_topics(timeout=20).topics
    return {(name, i): list(p.replicas) for name, t in topics.items() for i, p in t.partitions.items()}


def folders(house: House, broker_id: int) -> list[str]:
    """Of partitions, in a broker's own directory."""
    data = Path(house.folder) / f"broker-{broker_id}" / "data"
    return sorted(f.name for f in data.iterdir() if f.is_dir() and not f.name.endswith("-delete"))


def keys(desk: Desk, *pressed: str) -> None:
    for key in pressed:
        desk.page.keyboard.press(key)
        desk.page.wait_for_timeout(80)


def tab_to(desk: Desk, selector: str) -> None:
    """By the tabulator alone, as somebody without a mouse would."""
    for _ in range(120):
        if desk.page.evaluate(f"document.activeElement && document.activeElement.matches({selector!r})"):
            return
        desk.page.keyboard.press("Tab")
    raise AssertionError(f"{selector} is not reached by the tabulator")


def in_sync(house: House) -> bool:
    o = house.get("overview")
    return bool(o["health"]["word"] == "healthy" and (o["age_s"] or 99) < 5)


def test_a_broker_is_drained_by_mouse_until_it_is_proven_empty(desk: Desk, house: House) -> None:
    page = desk.page
    wait_for(lambda: in_sync(house), "a quiet house", 60)
    assert any(4 in replicas for replicas in placed(house).values())
    page.goto("/brokers/")
    page.click("#list a.name >> nth=3")
    page.wait_for_url("**/brokers/4/")
    desk.shot("verbs-01-broker")
    page.click("main >> text=/^Drain: /")
    page.wait_for_url("**/drain/")
    assert "It is cordoned" in page.inner_text("main")
    desk.shot("verbs-02-drain-review")
    page.fill("#id_why", "to the junkyard")
    page.click("main button.primary")
    page.wait_for_url("**/moves/*/")
    desk.live()
    desk.shot("verbs-03-drain-running")
    until(desk, "document.querySelector('[data-f=state]').innerText.includes('done')", "the drain's end", 120)
    assert not any(4 in replicas for replicas in placed(house).values())
    page.goto("/brokers/4/")
    desk.live()
    until(desk, "document.querySelector('#drain').innerText.includes('Empty:')", "the proof", 60)
    wait_for(lambda: not folders(house, 4), "the last folder to go")
    desk.shot("verbs-04-drained")
    house.topic("newcomer", partitions=6, replication_factor=3)
    assert not any(4 in replicas for replicas in placed(house).values()), "a new topic keeps off it"
    page.click("text=Uncordon")
    page.wait_for_selector("text=may be given replicas again")
    page.click("text=Leaders back")
    page.wait_for_selector("text=returns to it")
    desk.shot("verbs-05-back")
    wait_for(lambda: (b := house.get("brokers/4")) and not b["cordoned"] and b["leads"], "it to be like the others")


def test_a_whole_move_without_a_mouse(desk: Desk, house: House) -> None:
    page = desk.page
    wait_for(lambda: in_sync(house), "a quiet house", 60)
    before = placed(house)[TOPIC, 0]
    wanted = [4, before[0]]
    keys(desk, "g", "m")
    page.wait_for_url("**/moves/")
    keys(desk, "n")
    page.wait_for_url("**/moves/new/**")
    until(desk, "document.activeElement && document.activeElement.name === 'topic'", "the field to be ready")
    page.keyboard.type(TOPIC)
    keys(desk, "Enter")
    page.wait_for_selector("#p0")
    desk.shot("verbs-06-keyboard-choose")
    until(
        desk,
        "document.activeElement === document.body || document.activeElement.id === 'main'",
        "the page to have the keys",
    )
    keys(desk, "j", "x")
    assert page.is_checked("#p0")
    tab_to(desk, "#choice button.primary")
    keys(desk, "Enter")
    page.wait_for_selector("input[name=r0]")
    until(desk, "document.activeElement && document.activeElement.name === 'r0'", "the first field to be ready")
    keys(desk, "Control+a")
    page.keyboard.type(",".join(map(str, wanted)))
    keys(desk, "Enter")
    page.wait_for_url("**step=review**")
    desk.shot("verbs-07-keyboard-review")
    tab_to(desk, "#id_why")
    page.keyboard.type("without a mouse")
    tab_to(desk, "button[value=start]")
    keys(desk, "Enter")
    page.wait_for_url("**/moves/*/")
    desk.live()
    until(desk, "document.querySelector('[data-f=state]').innerText.includes('done')", "the move's end", 90)
    desk.shot("verbs-08-keyboard-done")
    assert placed(house)[TOPIC, 0] == wanted


def test_a_broker_is_restarted_by_keyboard_and_is_another_process_then(desk: Desk, house: House) -> None:
    page = desk.page
    wait_for(lambda: in_sync(house), "a quiet house", 60)
    alone = [i for (t, i), replicas in placed(house).items() if t == TOPIC and len(replicas) < 2]
    assert not alone, "every partition has somebody else"
    pids = house.pids()
    keys(desk, "g", "b")
    page.wait_for_url("**/brokers/")
    keys(desk, "j", "j", "x")
    desk.shot("verbs-09-restart-choose")
    keys(desk, "s")
    page.wait_for_url("**/restarts/new/**")
    desk.shot("verbs-10-restart-review")
    tab_to(desk, "#id_why")
    page.keyboard.type("a new kernel")
    tab_to(desk, "main form button.primary")
    keys(desk, "Enter")
    page.wait_for_url("**/restarts/*/")
    desk.live()
    row = wait_for(lambda: (r := house.get("restarts")["rows"][0]) and r["finished_at"] and r, "its end", 120)
    assert row["state"] == "done" and row["brokers"] == [2], row
    until(desk, "document.querySelector('#restart-page .head').innerText.includes('done')", "the page to say so", 30)
    desk.shot("verbs-11-restarted")
    after = house.pids()
    assert after["broker-2"] != pids["broker-2"]
    assert {n: p for n, p in after.items() if n != "broker-2"} == {n: p for n, p in pids.items() if n != "broker-2"}


def test_a_damaged_copy_is_found_shown_and_mended(desk: Desk, house: House) -> None:
    page = desk.page
    wait_for(lambda: in_sync(house), "a quiet house", 60)
    leader = house.leaders(TOPIC)[1]
    follower = next(b for b in placed(house)[TOPIC, 1] if b != leader)
    segments = sorted((Path(house.folder) / f"broker-{follower}" / "data" / f"{TOPIC}-1").glob("*.log"))
    assert len(segments) > 2, "closed segments are there"
    with segments[0].open("r+b") as file:
        file.seek(300)
        byte = file.read(1)[0]
        file.seek(300)
        file.write(bytes([byte ^ 1]))
    found = wait_for(lambda: house.get("findings?open=1")["rows"], "the damage to be found", 120)
    assert [(f["topic"], f["partition"], f["broker_id"], f["kind"]) for f in found] == [(TOPIC, 1, follower, "corrupt")]
    page.goto("/moves/?tab=damage")
    page.wait_for_selector("text=is damaged")
    desk.shot("verbs-12-damage")
    page.click("#list td.acts a")
    page.fill("#id_why", "bits have flipped")
    page.click("main button.primary")
    page.wait_for_url(f"**/topics/{TOPIC}/1/")
    wait_for(lambda: not house.get("findings?open=1")["rows"], "the damage to be over", 60)
    wait_for(lambda: house.get("recoveries")["rows"][0]["state"] == "done", "the rebuild's end", 60)
    desk.shot("verbs-13-mended")
    again = sorted((Path(house.folder) / f"broker-{follower}" / "data" / f"{TOPIC}-1").glob("*.log"))[0]
    whole = sorted((Path(house.folder) / f"broker-{leader}" / "data" / f"{TOPIC}-1").glob("*.log"))[0]
    first = min(again.stat().st_size, whole.stat().st_size)
    assert again.read_bytes()[:first] == whole.read_bytes()[:first]


def test_a_proposal_fills_who_is_empty_and_the_move_is_reviewed_as_any(desk: Desk, house: House) -> None:
    page = desk.page
    page.goto("/brokers/rebalance/?goal=replicas")
    assert "furthest from the mean" in page.inner_text("main")
    desk.shot("verbs-14-rebalance", full=True)
    page.click("text=Review the move")
    page.wait_for_url("**kind=rebalance**")
    told = house.post("rebalance", {"goals": ["replicas"]})
    assert page.locator("#list tbody tr").count() == min(200, told["changes_total"]) > 0
    desk.shot("verbs-15-rebalance-review")


def moved(house: House, scope: dict[str, object]) -> None:
    """A move of this scope, run to its end over REST."""
    made = house.post("moves", {"scope": scope, "start": True, "why": "verbs"})
    done = wait_for(lambda: (m := house.get(f"moves/{made['id']}")) and m["finished_at"] and m, "the move's end", 120)
    assert done["state"] == "done", done


def test_a_broker_is_filled_and_a_replication_factor_changed_by_rest(house: House) -> None:
    wait_for(lambda: in_sync(house), "a quiet house", 60)
    moved(house, {"kind": "replication_factor", "topic": TOPIC, "replication_factor": 3})
    assert {len(r) for (t, _), r in placed(house).items() if t == TOPIC} == {3}
    moved(house, {"kind": "replication_factor", "topic": TOPIC, "replication_factor": 2})
    assert {len(r) for (t, _), r in placed(house).items() if t == TOPIC} == {2}
    before = sum(4 in r for r in placed(house).values())
    moved(house, {"kind": "fill", "broker": 4})
    after = {b: sum(b in r for r in placed(house).values()) for b in (1, 2, 3, 4)}
    assert after[4] > before and after[4] >= sum(after.values()) // 4 - 1, after
    assert len(folders(house, 4)) == after[4]
