"""An operator's evening in a real browser on a living house: log in, create a topic, watch lag rise and fall, lose a broker and get it back,
move partitions, read records, read who did it. The pages change in place: a mark in the window outlives every step that claims so.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from confluent_kafka import Consumer, Producer
from playwright.sync_api import Browser

from tests.browser.conftest import Desk
from tests.cluster.house import House
from tests.cluster.local import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.cluster, pytest.mark.timeout(240)]
TOPIC, GROUP, MOVED = "evening", "evening-readers", "cargo"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    house = House(tmp_path_factory.mktemp("house"))
    yield house
    house.down()


@pytest.fixture
def desk(chromium: Browser, house: House) -> Iterator[Desk]:
    desk = Desk(chromium, house.console.rstrip("/"), house.user, house.password)
    yield desk
    desk.context.close()
    assert not desk.complaints, desk.complaints


def mark(desk: Desk) -> None:
    desk.live()
    desk.page.evaluate("window.weirMark = 1")


def unchanged(desk: Desk) -> bool:
    return bool(desk.page.evaluate("window.weirMark === 1"))


def until(desk: Desk, condition: str, what: str, seconds: float = 40) -> None:
    """Look until a condition holds in the page, without touching it. (Waiting inside the page would need eval, which its policy forbids.)"""
    deadline = time.monotonic() + seconds
    while not desk.page.evaluate(condition):
        if time.monotonic() > deadline:
            desk.shot(f"walk-failed-{what.replace(' ', '-')}")
            raise AssertionError(f"waited {seconds} s for {what}")
        desk.page.wait_for_timeout(150)


LAG_CELL = f'[data-subject="group:{GROUP}"] [data-f=lag]'
LAG = f"Number(document.querySelector('{LAG_CELL}').innerText.replace(/\\D/g, '') || '-1')"


def watch(desk: Desk, cell: str) -> None:
    """Remember every number that a cell shows from now on; the memory dies with the document, as the mark does."""
    desk.page.evaluate(
        """(cell) => {
            const box = document.querySelector(cell), see = () => {
                const figure = Number(box.innerText.replace(/\\D/g, "") || "-1");
                if (window.weirSeen.at(-1) !== figure) window.weirSeen.push(figure);
            };
            window.weirSeen = [];
            see();
            new MutationObserver(see).observe(box, {childList: true, subtree: true, characterData: true});
        }""",
        cell,
    )


def seen(desk: Desk) -> list[int]:
    return list(desk.page.evaluate("window.weirSeen"))


def in_sync(desk: Desk, partition: int) -> list[str]:
    cell = desk.page.locator(f'[data-subject="partition:{TOPIC}:{partition}"] [data-f=isr] i.b')
    return [t.strip() for t in cell.all_inner_texts()]


def write(house: House, count: int, evening: int) -> None:
    """`count` records over all partitions, each acknowledged; `evening` tells this call's records from another's."""
    producer = Producer({"bootstrap.servers": house.bootstrap, "enable.idempotence": True, "linger.ms": 5})
    failed: list[object] = []
    for i in range(count):
        producer.produce(
            TOPIC,
            json.dumps({"n": i, "evening": evening}),
            key=f"key-{i}",
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        if i % 1000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0 and not failed


def read(reader: Consumer, count: int) -> None:
    while count > 0:
        count -= sum(m.error() is None for m in reader.consume(min(count, 5_000), 1))
        reader.commit(asynchronous=False)


def offsets(desk: Desk) -> list[int]:
    cells = desk.page.locator("#list tbody tr td:first-child").all_inner_texts()
    return [int(t.replace(",", "")) for t in cells]


def evenings(desk: Desk) -> list[int]:
    """Which call of `write` each record on the page came from."""
    return [json.loads(t)["evening"] for t in desk.page.locator("#list summary").all_inner_texts()]


def create_by_form(desk: Desk) -> None:
    page = desk.page
    page.goto("/new/topic/")
    page.fill("#id_name", TOPIC)
    page.fill("#id_partitions", "3")
    page.fill("#id_replication_factor", "3")
    page.fill("#id_why", "browser test")
    desk.shot("walk-01-new-topic")
    page.click("main button.primary")
    page.wait_for_url(f"**/topics/{TOPIC}/")
    until(
        desk,
        f"document.querySelectorAll('[data-subject^=\"partition:{TOPIC}:\"] [data-f=leader] i.b').length === 3",
        "leaders",
    )
    desk.shot("walk-02-topic-created")
    page.goto("/topics/")
    assert TOPIC in page.locator("#list a.name").all_inner_texts()


def lag_rises_and_falls(desk: Desk, house: House) -> int:
    """Lag on the group's page, in place. Returns the second (epoch) that lies between the two writings."""
    page = desk.page
    write(house, 3_000, evening=1)
    between = math.ceil(time.time())
    reader = Consumer(
        {
            "bootstrap.servers": house.bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    reader.subscribe([TOPIC])
    read(reader, 3_000)  # of every partition something, or its lag would rightly be unknown
    wait_for(lambda: house.call("GET", f"groups/{GROUP}")[0] == 200, "the group to be seen")
    wait_for(lambda: time.time() > between, "a second to pass")
    page.goto(f"/groups/{GROUP}/")
    until(desk, f"{LAG} === 0", "a group that has read all")
    mark(desk)
    watch(desk, LAG_CELL)
    write(house, 20_000, evening=2)
    until(desk, f"{LAG} === 20000", "the lag to rise")
    desk.shot("walk-03-lag-high")
    read(reader, 8_000)
    until(desk, f"{LAG} <= 12000", "the lag to fall a part of the way")
    read(reader, 12_000)
    until(desk, f"{LAG} === 0", "the lag to fall")
    assert unchanged(desk), "the page was loaded anew"
    lags = seen(desk)
    assert lags[0] == 0 and max(lags) == 20_000 and lags[-1] == 0 and any(0 < v < 20_000 for v in lags), lags
    desk.shot("walk-04-lag-low")
    reader.close()
    return between


def lose_a_broker_and_get_it_back(desk: Desk, house: House) -> None:
    page = desk.page
    page.goto(f"/topics/{TOPIC}/")
    mark(desk)

    def all_have(count: int) -> bool:
        page.wait_for_timeout(200)  # lets the page work
        return all(len(in_sync(desk, p)) == count for p in range(3))

    wait_for(lambda: all_have(3), "the full ISR on the page")
    house.manage("process", "kill", "broker-2")  # SIGKILL, and it stays down
    wait_for(lambda: all_have(2), "broker 2 to leave every ISR on the page", 40)
    assert all("2" not in in_sync(desk, p) for p in range(3)) and unchanged(desk)
    desk.shot("walk-05-isr-shrunk")
    page.goto("/")
    until(desk, "!document.querySelector('.health').innerText.includes('healthy')", "the health line to tell")
    desk.shot("walk-06-overview-broker-dead")
    page.goto("/brokers/2/")
    desk.live()
    desk.shot("walk-06-broker-dead")
    page.goto(f"/topics/{TOPIC}/")
    mark(desk)
    house.manage("process", "start", "broker-2")
    wait_for(lambda: all_have(3), "broker 2 back in every ISR on the page", 40)
    assert unchanged(desk)
    desk.shot("walk-07-isr-grown")


CAME = "[...document.querySelectorAll('#move-brokers tr td:nth-child(3)')].reduce((n, c) => n + (Number(c.innerText) || 0), 0)"
SHARES = "[...document.querySelectorAll('#move-brokers td')].map((c) => c.innerText).filter((t) => t.includes(' of '))"


def move_to_its_end(desk: Desk, house: House) -> None:
    """Every partition of a topic to the broker that does not hold it, one at a time, so that there is progress to see."""
    page = desk.page
    house.topic(MOVED, partitions=6, replication_factor=2)
    house.fill(MOVED, 12_000)
    before = {p["index"]: p["replicas"] for p in house.partitions(MOVED)}
    page.goto(f"/moves/new/?kind=partitions&topic={MOVED}")
    for p in before:
        page.check(f"#p{p}")
    page.click("text=Choose where to")
    wanted = {}
    for p, replicas in before.items():
        wanted[p] = [next(b for b in (1, 2, 3) if b not in replicas), replicas[0]]
        page.fill(f"input[name=r{p}]", ",".join(map(str, wanted[p])))
    desk.shot("walk-08-move-where")
    page.click("text=Review the move")
    page.fill("#id_parts_in_flight_max", "1")
    page.fill("#id_throttle_bytes_per_s", "0.2")
    page.fill("#id_why", "browser test")
    desk.shot("walk-09-move-review")
    page.click("button[value=start]")
    page.wait_for_url("**/moves/*/")
    mark(desk)
    watch(desk, "[data-f=percent]")
    until(desk, "window.weirSeen.some((v) => v > 5)", "progress")
    # Each broker's share, and what producers feel meanwhile: both by themselves.
    until(
        desk,
        "/^[0-9]+ of/.test(document.querySelector('#move-brokers td.num:not(.zero)').innerText)",
        "brokers' shares",
    )
    until(desk, f"{CAME} > 0", "bytes to have come to a broker")
    deadline = time.monotonic() + 60
    while page.inner_text("[data-f=p99]") == "–" and time.monotonic() < deadline:
        write(house, 300, 3)  # looked at every three seconds, between two looks: nobody knows when those are
        page.wait_for_timeout(100)
    assert float(page.inner_text("[data-f=p99]").replace(",", "")) > 0
    assert unchanged(desk)
    desk.shot("walk-10-move-running")
    # Slow enough to be seen, and too slow: half a minute is left. Faster, by the button that says how slow it is.
    page.click("text=Throttle (now 200 kB/s)")
    page.fill("#id_throttle_bytes_per_s", "50")
    page.click("text=Set the throttle")
    page.wait_for_selector("text=50.0 MB/s per broker")
    mark(desk)
    watch(desk, "[data-f=percent]")
    until(desk, "document.querySelector('[data-f=standing]').innerText.includes('done')", "the move's end")
    assert unchanged(desk), "the page was loaded anew"
    percents = seen(desk)
    assert percents == sorted(percents) and any(0 < v < 100 for v in percents) and percents[-1] == 100, percents
    assert page.inner_text("[data-f=eta]") == "–"
    until(desk, f"{SHARES}.every((t) => t.split(' of ')[0] === t.split(' of ')[1])", "every broker's share to be whole")
    desk.shot("walk-11-move-done")
    assert {p["index"]: p["replicas"] for p in house.partitions(MOVED)} == wanted


def read_records(desk: Desk, house: House, between: int) -> None:
    """Records of a partition: the newest, from an offset, from a time."""
    page = desk.page
    end = next(p["end_offset"] for p in house.partitions(TOPIC) if p["index"] == 0)
    page.goto("/messages/")
    page.fill("#id_topic", TOPIC)
    page.fill("#id_limit", "20")
    page.click("main button.primary")
    page.wait_for_selector("#list summary")
    assert offsets(desk) == list(range(end - 20, end))
    desk.shot("walk-12-messages-newest")
    page.select_option("#id_start", "offset")
    page.fill("#id_offset", "7")
    page.fill("#id_limit", "5")
    page.click("main button.primary")
    page.wait_for_url("**start=offset**")
    until(desk, "document.querySelectorAll('#list summary').length === 5", "five records")
    assert offsets(desk) == [7, 8, 9, 10, 11]
    desk.shot("walk-12-messages-offset")
    page.select_option("#id_start", "time")
    page.fill("#id_time", datetime.fromtimestamp(between, UTC).strftime("%Y-%m-%dT%H:%M:%S"))
    page.click("main button.primary")
    page.wait_for_url("**start=time**")
    until(desk, "document.querySelector('#list td').innerText !== '7'", "the records of that time")
    first = offsets(desk)[0]
    assert evenings(desk) == [2] * 5
    desk.shot("walk-12-messages-time")
    page.goto(f"/messages/?topic={TOPIC}&partition=0&start=offset&offset={first - 1}&limit=2")
    assert evenings(desk) == [1, 2], "the first record of that time or later, and none left out"


def test_an_evening_on_call(desk: Desk, house: House) -> None:
    create_by_form(desk)
    between = lag_rises_and_falls(desk, house)
    lose_a_broker_and_get_it_back(desk, house)
    move_to_its_end(desk, house)
    read_records(desk, house, between)

    # Who did it.
    desk.page.goto("/audit/")
    rows = [tuple(r.locator("td").all_inner_texts()[2:6]) for r in desk.page.locator("#list tbody tr").all()]
    assert (house.user, "topic.create", TOPIC, "browser test") in rows, rows
    assert any(r[:2] == (house.user, "move.start") and r[3] == "browser test" for r in rows), rows
    desk.shot("walk-13-audit")


def test_a_page_says_that_its_data_is_old_when_the_web_is_gone(desk: Desk, house: House) -> None:
    desk.page.goto("/topics/")
    desk.live()
    house.manage("process", "stop", "web")
    try:
        until(desk, "!document.querySelector('#live').classList.contains('on')", "the page to say that it is not live")
        until(desk, "!document.querySelector('#stale').hidden", "the page to say it in words")
        words = desk.page.inner_text("#stale")
        assert "The console does not answer" in words and "old" in words, words
        desk.shot("walk-14-not-live")
    finally:
        house.manage("process", "start", "web")
    until(desk, "document.querySelector('#live').classList.contains('on')", "the page to be live again by itself")
    until(desk, "document.querySelector('#stale').hidden", "the warning to go")
    desk.complaints = [c for c in desk.complaints if "WebSocket" not in c and "ERR_" not in c]
