"""Tasks of an operator in a real browser on a local cluster: log in, create a topic, watch lag rise and fall, lose a broker and start it again,
move partitions, read records, read the audit log. A marker on the window proves that a page changed in place, without a reload.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from confluent_kafka import Consumer, Producer
from playwright.sync_api import Browser, Locator, expect

from tests.browser.conftest import BrowserSession
from tests.cluster.devcluster import DevCluster
from tests.cluster.local import PATIENCE_SECONDS, wait_for

pytestmark = [pytest.mark.browser, pytest.mark.cluster, pytest.mark.timeout(900)]
TOPIC, GROUP, MOVED = "evening", "evening-readers", "cargo"


@pytest.fixture(scope="module")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    devcluster = DevCluster(tmp_path_factory.mktemp("devcluster"))
    yield devcluster
    devcluster.end()


@pytest.fixture
def session(chromium: Browser, devcluster: DevCluster) -> Iterator[BrowserSession]:
    session = BrowserSession(chromium, devcluster.console.rstrip("/"), devcluster.user, devcluster.password, at="/")
    yield session
    session.context.close()
    assert not session.errors, session.errors


def mark(session: BrowserSession) -> None:
    session.live()
    session.page.evaluate("window.weirMark = 1")


def is_unchanged(session: BrowserSession) -> bool:
    return bool(session.page.evaluate("window.weirMark === 1"))


def wait_until(session: BrowserSession, condition: str, what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Poll a condition in the page. (Waiting inside the page needs eval, which the content security policy forbids.)"""
    deadline = time.monotonic() + seconds
    while not session.page.evaluate(condition):
        if time.monotonic() > deadline:
            session.shot(f"walk-failed-{what.replace(' ', '-')}")
            raise AssertionError(f"waited {seconds} s for {what}")
        session.page.wait_for_timeout(150)


LAG_CELL = f'[data-subject="group:{GROUP}"] [data-f=lag]'
LAG = f"Number(document.querySelector('{LAG_CELL}').innerText.replace(/\\D/g, '') || '-1')"


def watch(session: BrowserSession, cell: str) -> None:
    """Record every number that a cell shows from now on, in a variable of the window."""
    session.page.evaluate(
        """(cell) => {
            const box = document.querySelector(cell), see = () => {
                const value = Number(box.innerText.replace(/\\D/g, "") || "-1");
                if (window.weirSeen.at(-1) !== value) window.weirSeen.push(value);
            };
            window.weirSeen = [];
            see();
            new MutationObserver(see).observe(box, {childList: true, subtree: true, characterData: true});
        }""",
        cell,
    )


def seen_updates(session: BrowserSession) -> list[int]:
    return list(session.page.evaluate("window.weirSeen"))


def in_sync(session: BrowserSession, partition: int) -> list[str]:
    cell = session.page.locator(f'[data-subject="partition:{TOPIC}:{partition}"] [data-f=isr] i.b')
    return [t.strip() for t in cell.all_inner_texts()]


def write(devcluster: DevCluster, count: int, evening: int) -> None:
    """Produce `count` records over all partitions, all acknowledged. `evening` identifies the call in the records. Ten of the first 600 have the same
    timestamp: pages of all partitions are ordered by timestamp, then by partition."""
    start_ms = int(time.time() * 1000)
    producer = Producer({"bootstrap.servers": devcluster.bootstrap, "enable.idempotence": True, "linger.ms": 5})
    failed: list[object] = []
    for i in range(count):
        producer.produce(
            TOPIC,
            json.dumps({"n": i, "evening": evening}),
            key=f"key-{i}",
            timestamp=start_ms + min(i, 600) // 10,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        if i % 1000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0 and not failed


def read(reader: Consumer, count: int) -> None:
    while count > 0:
        got = sum(m.error() is None for m in reader.consume(min(count, 5_000), 1))
        if got:  # a commit without a consumed record is rejected by librdkafka
            reader.commit(asynchronous=False)
        count -= got


def offsets(session: BrowserSession) -> list[int]:
    cells = session.page.locator("#list tbody tr td:first-child").all_inner_texts()
    return [int(t.replace(",", "")) for t in cells]


def evening_numbers(session: BrowserSession) -> list[int]:
    """The call of `write` that produced each record on the page."""
    return [json.loads(t)["evening"] for t in session.page.locator("#list summary").all_inner_texts()]


def create_by_form(session: BrowserSession) -> None:
    page = session.page
    page.goto("/new/topic/")
    page.fill("#id_name", TOPIC)
    page.fill("#id_partitions", "3")
    page.fill("#id_replication_factor", "3")
    page.fill("#id_comment", "browser test")
    session.shot("walk-01-new-topic")
    page.click("main button.primary")
    page.wait_for_url(f"**/topics/{TOPIC}/")
    wait_until(
        session,
        f"document.querySelectorAll('[data-subject^=\"partition:{TOPIC}:\"] [data-f=leader] i.b').length === 3",
        "leaders",
    )
    # The page was loaded before the controller had applied the change: state and note change in place.
    wait_until(
        session, "document.querySelector('#topic-state').innerText.trim() === 'active'", "the topic to be active"
    )
    wait_until(
        session,
        "document.querySelector('#waiting').innerText.trim() === ''",
        "the note about the controller to be removed",
    )
    session.shot("walk-02-topic-created")
    page.goto("/topics/")
    assert TOPIC in page.locator("#list a.name").all_inner_texts()


def lag_rises_and_falls(session: BrowserSession, devcluster: DevCluster) -> int:
    """Lag on the page of the group, in place. Returns the second (epoch) between the two calls of `write`."""
    page = session.page
    write(devcluster, 3_000, evening=1)
    between = math.ceil(time.time() + 0.1)  # above the timestamps of the records
    reader = Consumer(
        {
            "bootstrap.servers": devcluster.bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    reader.subscribe([TOPIC])
    read(reader, 3_000)  # some records of every partition, else its lag is unknown
    wait_for(lambda: devcluster.call("GET", f"groups/{GROUP}")[0] == 200, "the group to be seen")
    wait_for(lambda: time.time() > between, "a second to pass")
    page.goto(f"/groups/{GROUP}/")
    wait_until(session, f"{LAG} === 0", "a group that has read all")
    mark(session)
    watch(session, LAG_CELL)
    write(devcluster, 20_000, evening=2)
    wait_until(session, f"{LAG} === 20000", "the lag to rise")
    session.shot("walk-03-lag-high")
    read(reader, 8_000)
    wait_until(session, f"{LAG} <= 12000", "the lag to fall a part of the way")
    read(reader, 12_000)
    wait_until(session, f"{LAG} === 0", "the lag to fall")
    assert is_unchanged(session), "the page was reloaded"
    lags = seen_updates(session)
    assert lags[0] == 0 and max(lags) == 20_000 and lags[-1] == 0 and any(0 < v < 20_000 for v in lags), lags
    session.shot("walk-04-lag-low")
    reader.close()
    return between


def lose_a_broker_and_get_it_back(session: BrowserSession, devcluster: DevCluster) -> None:
    page = session.page
    page.goto(f"/topics/{TOPIC}/")
    mark(session)

    def all_have(count: int) -> bool:
        page.wait_for_timeout(200)  # lets the page work
        return all(len(in_sync(session, p)) == count for p in range(3))

    wait_for(lambda: all_have(3), "the full ISR on the page")
    devcluster.manage("process", "kill", "broker-2")  # SIGKILL without a restart
    wait_for(lambda: all_have(2), "broker 2 to leave every ISR on the page")
    assert all("2" not in in_sync(session, p) for p in range(3)) and is_unchanged(session)
    session.shot("walk-05-isr-shrunk")
    page.goto("/")
    wait_until(session, "!document.querySelector('.health').innerText.includes('healthy')", "the health line to change")
    session.shot("walk-06-overview-broker-dead")
    page.goto("/brokers/2/")
    session.live()
    session.shot("walk-06-broker-dead")
    page.goto(f"/topics/{TOPIC}/")
    mark(session)
    devcluster.manage("process", "start", "broker-2")
    wait_for(lambda: all_have(3), "broker 2 back in every ISR on the page")
    assert is_unchanged(session)
    session.shot("walk-07-isr-grown")


RECEIVED = "[...document.querySelectorAll('#move-brokers tr td:nth-child(3)')].reduce((n, c) => n + (parseFloat(c.innerText) || 0), 0)"
PROGRESS = (
    "[...document.querySelectorAll('#move-brokers td')].map((c) => c.innerText).filter((t) => t.includes(' of '))"
)


def move_to_its_end(session: BrowserSession, devcluster: DevCluster) -> None:
    """Moves every partition of a topic to the broker without a replica of it, one at a time, so progress is visible."""
    page = session.page
    devcluster.topic(MOVED, partitions=6, replication_factor=2)
    devcluster.fill(MOVED, 24_000)
    # The progress is computed from the reported sizes: it would fall while reports of smaller logs are replaced.
    wait_for(
        lambda: sum(p["size_bytes"] or 0 for p in devcluster.partitions(MOVED)) >= 24_000 * 500,
        "the sizes of the filled logs to be reported",
    )
    before = {p["index"]: p["replicas"] for p in devcluster.partitions(MOVED)}
    page.goto(f"/moves/new/?kind=partitions&topic={MOVED}")
    for p in before:
        page.check(f"#p{p}")
    page.click("text=Next: target brokers")
    wanted = {}
    for p, replicas in before.items():
        wanted[p] = [next(b for b in (1, 2, 3) if b not in replicas), replicas[0]]
        page.fill(f"input[name=r{p}]", ",".join(map(str, wanted[p])))
    session.shot("walk-08-move-where")
    page.click("main button.primary")
    page.fill("#id_parts_in_flight_max", "1")
    page.fill(
        "#id_throttle_bytes_per_s", "0.05"
    )  # four minutes for 12 MB: the move is active when the throttle is raised
    page.fill("#id_comment", "browser test")
    session.shot("walk-09-move-review")
    page.click("button[value=start]")
    page.wait_for_url("**/moves/*/")
    mark(session)
    watch(session, "[data-f=percent]")
    wait_until(session, "window.weirSeen.some((v) => v > 0)", "progress")
    # Progress per broker and produce latency change in place.
    wait_until(
        session,
        "/^[0-9]+ of/.test(document.querySelector('#move-brokers td.num:not(.zero)').innerText)",
        "brokers' shares",
    )
    wait_until(session, f"{RECEIVED} > 0", "bytes received by a broker")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while page.inner_text("[data-f=p99]") == "–" and time.monotonic() < deadline:
        write(devcluster, 300, 3)  # the latency is sampled every three seconds, at unknown times
        page.wait_for_timeout(100)
    assert float(page.inner_text("[data-f=p99]").replace(",", "")) > 0
    assert is_unchanged(session)
    session.shot("walk-10-move-running")
    # Raise the throttle with the button that shows its current value.
    page.click("text=Throttle (now 50.0 kB/s)")
    page.wait_for_url("**/moves/*/throttle/")
    page.fill("#id_throttle_bytes_per_s", "50")
    page.click("button:has-text('Set throttle')")
    expect(page.locator(".toast")).to_contain_text("50.0 MB/s per broker", timeout=60_000)
    mark(session)
    watch(session, "[data-f=percent]")
    wait_until(session, "document.querySelector('[data-f=move_status]').innerText.includes('done')", "the move's end")
    assert is_unchanged(session), "the page was reloaded"
    percents = seen_updates(session)
    assert percents == sorted(percents) and any(0 < v < 100 for v in percents) and percents[-1] == 100, percents
    assert page.inner_text("[data-f=eta]") == "–"
    wait_until(
        session, f"{PROGRESS}.every((t) => t.split(' of ')[0] === t.split(' of ')[1])", "all brokers to be complete"
    )
    session.shot("walk-11-move-done")
    assert {p["index"]: p["replicas"] for p in devcluster.partitions(MOVED)} == wanted


def read_records(session: BrowserSession, devcluster: DevCluster, between: int) -> None:
    """Records of a topic: latest, from an offset, from a timestamp, from all partitions with a filter, continued, one record, a download."""
    page = session.page
    end = next(p["end_offset"] for p in devcluster.partitions(TOPIC) if p["index"] == 0)
    page.goto("/messages/")
    page.fill("#id_topic", TOPIC)
    page.fill("#id_partitions", "0")
    page.fill("#id_limit", "20")
    page.click("main button.primary")
    page.wait_for_selector("#list summary")
    assert offsets(session) == list(range(end - 1, end - 21, -1)), "the newest first"
    session.shot("walk-12-messages-latest")
    page.select_option("#id_start", "offset")
    page.fill("#id_offset", "7")
    page.fill("#id_limit", "5")
    page.click("main button.primary")
    page.wait_for_url("**start=offset**")
    wait_until(session, "document.querySelectorAll('#list summary').length === 5", "five records")
    assert offsets(session) == [7, 8, 9, 10, 11]
    session.shot("walk-12-messages-offset")
    page.select_option("#id_start", "timestamp")
    page.fill("#id_time", datetime.fromtimestamp(between, UTC).strftime("%Y-%m-%dT%H:%M:%S"))
    page.click("main button.primary")
    page.wait_for_url("**start=timestamp**")
    wait_until(session, "document.querySelector('#list td').innerText !== '7'", "the records of that time")
    first = offsets(session)[0]
    assert evening_numbers(session) == [2] * 5
    session.shot("walk-12-messages-time")
    page.goto(f"/messages/?topic={TOPIC}&partitions=0&start=offset&offset={first - 1}&limit=2")
    assert evening_numbers(session) == [1, 2], "the first record at or after the timestamp"
    # All partitions, with a filter, in two parts.
    total = sum(p["end_offset"] for p in devcluster.partitions(TOPIC))
    page.goto(f"/messages/?topic={TOPIC}&start=earliest&limit=30&json=%24.evening+%3D%3D+2")
    assert evening_numbers(session) == [2] * 30
    page.click("#progress [rel=next]")
    wait_until(session, "document.querySelectorAll('#list summary').length === 60", "the second part")
    assert evening_numbers(session) == [2] * 60
    places = [(r.nth(1).inner_text(), r.nth(0).inner_text()) for r in rows_of(session)]
    assert len(set(places)) == 60 and {p for p, _ in places} == {"0", "1", "2"}
    session.shot("walk-12-messages-all")
    page.goto(f"/messages/?topic={TOPIC}&start=earliest&value_contains=nothing-has-this")
    wait_until(
        session,
        "document.querySelector('#progress b').innerText === 'Complete'"
        " || (document.querySelector('#progress [rel=next]:not(.htmx-request)')?.click(), false)",
        "the end of the range",
    )
    assert f"{total:,} records scanned" in page.inner_text("#progress")
    # A link to one record, and a download.
    page.goto(f"/messages/?topic={TOPIC}&partitions=0&start=offset&offset=7&limit=3")
    page.click("#list tbody a:not(.button) >> nth=1")
    page.wait_for_url("**offset=8**")
    assert offsets(session) == [8]
    with page.expect_download() as download:
        page.click("text=Download NDJSON")
    assert [json.loads(line)["offset"] for line in download.value.path().read_text().splitlines()][:2] == [8, 9]


def rows_of(session: BrowserSession) -> list[Locator]:
    return [r.locator("td") for r in session.page.locator("#list tbody tr").all()]


def test_an_evening_on_call(session: BrowserSession, devcluster: DevCluster) -> None:
    create_by_form(session)
    between = lag_rises_and_falls(session, devcluster)
    lose_a_broker_and_get_it_back(session, devcluster)
    move_to_its_end(session, devcluster)
    read_records(session, devcluster, between)

    # The audit log.
    session.page.goto("/audit/")
    rows = [tuple(r.locator("td").all_inner_texts()[2:6]) for r in session.page.locator("#list tbody tr").all()]
    assert (devcluster.user, "Create topic", TOPIC, "browser test") in rows, rows
    assert any(r[:2] == (devcluster.user, "Start move") and r[3] == "browser test" for r in rows), rows
    session.shot("walk-13-audit")


def test_a_page_warns_about_stale_data_when_the_web_process_is_down(
    session: BrowserSession, devcluster: DevCluster
) -> None:
    session.page.goto("/topics/")
    session.live()
    devcluster.manage("process", "stop", "web")
    try:
        wait_until(
            session, "!document.querySelector('#live').classList.contains('on')", "the page to show that it is not live"
        )
        wait_until(session, "!document.querySelector('#stale').hidden", "the banner")
        text = session.page.inner_text("#stale")
        assert "The console does not respond" in text and "old" in text, text
        session.shot("walk-14-not-live")
    finally:
        devcluster.manage("process", "start", "web")
    wait_until(session, "document.querySelector('#live').classList.contains('on')", "the page to reconnect")
    wait_until(session, "document.querySelector('#stale').hidden", "the banner to be removed")
    session.errors = [c for c in session.errors if "WebSocket" not in c and "ERR_" not in c]
