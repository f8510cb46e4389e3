"""An operator's evening in a real browser on a living house: log in, create a topic, watch lag rise and fall, lose a broker and get it back,
move partitions, read records, read who did it. The pages change in place: a mark in the window outlives every step that claims so.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from playwright.sync_api import Browser

from tests.browser.conftest import Desk
from tests.cluster.house import House
from tests.cluster.local import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.cluster, pytest.mark.timeout(240)]
TOPIC, GROUP = "evening", "evening-readers"


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


LAG = f"Number(document.querySelector('[data-subject=\"group:{GROUP}\"] [data-f=lag]').innerText.replace(/\\D/g, '') || '-1')"


def in_sync(desk: Desk, partition: int) -> list[str]:
    cell = desk.page.locator(f'[data-subject="partition:{TOPIC}:{partition}"] [data-f=isr] i.b')
    return [t.strip() for t in cell.all_inner_texts()]


def write(house: House, count: int) -> None:
    producer = Producer({"bootstrap.servers": house.bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for i in range(count):
        producer.produce(TOPIC, f'{{"n": {i}}}', key=f"key-{i}")
        if i % 1000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0


def read(reader: Consumer, count: int) -> None:
    while count > 0:
        count -= sum(m.error() is None for m in reader.consume(min(count, 5_000), 1))
        reader.commit(asynchronous=False)


def test_an_evening_on_call(desk: Desk, house: House) -> None:
    page = desk.page

    # Create a topic by its form.
    page.goto("/new/topic/")
    page.fill("#id_name", TOPIC)
    page.fill("#id_partitions", "3")
    page.fill("#id_replication_factor", "2")
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

    # Lag rises while the group stands still, and falls while it reads.
    write(house, 3_000)
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
    write(house, 20_000)
    wait_for(lambda: house.call("GET", f"groups/{GROUP}")[0] == 200, "the group to be seen")
    page.goto(f"/groups/{GROUP}/")
    until(desk, f"{LAG} > 15000", "the lag to be shown")
    mark(desk)
    desk.shot("walk-03-lag-high")
    read(reader, 20_000)
    until(desk, f"{LAG} < 500", "the lag to fall")
    assert unchanged(desk), "the page was loaded anew"
    desk.shot("walk-04-lag-low")
    reader.close()

    # A broker dies: the ISR shrinks before one's eyes, and grows again.
    page.goto(f"/topics/{TOPIC}/")
    mark(desk)
    wait_for(lambda: all(len(in_sync(desk, p)) == 2 for p in range(3)), "the full ISR on the page")
    house.manage("process", "kill", "broker-2")
    page.wait_for_timeout(100)

    def pumped(condition: str) -> bool:
        page.wait_for_timeout(200)  # lets the page work
        return (
            all("2" not in in_sync(desk, p) for p in range(3))
            if condition == "out"
            else all(len(in_sync(desk, p)) == 2 for p in range(3))
        )

    wait_for(lambda: pumped("out"), "broker 2 to leave every ISR on the page", 40)
    assert unchanged(desk)
    desk.shot("walk-05-isr-shrunk")
    page.goto("/")
    until(desk, "!document.querySelector('.health').innerText.includes('healthy')", "the health line to tell")
    desk.shot("walk-06-overview-broker-dead")
    page.goto(f"/topics/{TOPIC}/")
    mark(desk)
    house.manage("process", "start", "broker-2")
    wait_for(lambda: pumped("in"), "broker 2 back in every ISR on the page", 40)
    assert unchanged(desk)
    desk.shot("walk-07-isr-grown")

    # A move to its end: every partition to the broker that does not hold it.
    before = {p["index"]: p["replicas"] for p in house.partitions(TOPIC)}
    page.goto(f"/moves/new/?kind=partitions&topic={TOPIC}")
    for p in before:
        page.check(f"#p{p}")
    page.click("text=Choose where to")
    wanted = {}
    for p, replicas in before.items():
        wanted[p] = [next(b for b in (1, 2, 3) if b not in replicas), replicas[0]]
        page.fill(f"input[name=r{p}]", ",".join(map(str, wanted[p])))
    desk.shot("walk-08-move-where")
    page.click("text=Review the move")
    page.fill("#id_why", "browser test")
    desk.shot("walk-09-move-review")
    page.click("button[value=start]")
    page.wait_for_url("**/moves/*/")
    mark(desk)
    desk.shot("walk-10-move-running")
    until(desk, "document.querySelector('[data-f=state]').innerText.includes('done')", "the move's end")
    assert unchanged(desk)
    desk.shot("walk-11-move-done")
    assert {p["index"]: p["replicas"] for p in house.partitions(TOPIC)} == wanted

    # Records of a partition: from an offset, by time, the newest.
    page.goto(f"/messages/?topic={TOPIC}&partition=0")
    page.wait_for_selector("main tbody tr td")
    newest = int(page.locator("main tbody tr").last.locator("td").first.inner_text().replace(",", ""))
    assert newest > 1000
    page.goto(f"/messages/?topic={TOPIC}&partition=0&start=offset&offset=7&limit=5")
    assert page.locator("main tbody tr td:first-child").first.inner_text() == "7"
    desk.shot("walk-12-messages")

    # Who did it.
    page.goto("/audit/")
    said = page.inner_text("main")
    for what in ("topic.create", "move.start", house.user, TOPIC):
        assert what in said, (what, said[:500])
    desk.shot("walk-13-audit")


def test_a_page_says_that_its_data_is_old_when_the_web_is_gone(desk: Desk, house: House) -> None:
    desk.page.goto("/topics/")
    desk.live()
    house.manage("process", "stop", "web")
    try:
        until(desk, "!document.querySelector('#live').classList.contains('on')", "the page to say that it is not live")
        desk.page.wait_for_timeout(3_000)
        desk.shot("walk-14-not-live")
    finally:
        house.manage("process", "start", "web")
    until(desk, "document.querySelector('#live').classList.contains('on')", "the page to be live again by itself")
    desk.complaints = [c for c in desk.complaints if "WebSocket" not in c and "ERR_" not in c]
