"""The one who watches: tails the metadata log, samples the brokers, writes observed rows, publishes what changed.

Laws: it writes observed rows and nothing else; it decides nothing; a broker, ZooKeeper or a database that hangs delays its own figures
only. One thread for log and rows, a few for brokers. Started by the web process (ASGI lifespan) or `manage.py observe`.
"""

from __future__ import annotations

import json
import logging
import os
import re
import select
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import DatabaseError, connection

from brokerd.cluster import znodes
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import Record
from brokerd.cluster.model import NO_LEADER, Now
from brokerd.cluster.store import Code, Result, SessionState, Store
from brokerd.cluster.tailer import Tailer
from controlplane import feed, findings
from controlplane.client import address_of, client_settings, zookeeper_store
from controlplane.dbcare import drop_if_replaced
from controlplane.kafka import BrokerSample, Connection, Key, NoAnswer, sample_broker
from controlplane.live import Hub
from controlplane.mirror import Mirror
from controlplane.samples import Book, Changed
from controlplane.services import alerts

log = logging.getLogger(__name__)

MIRROR_MS_MIN = 200
"""Milliseconds between writes of a changing image: a storm of elections becomes a few writes."""

TOUCH_MS = 1_000
SAMPLE_MS = 1_000
"""Milliseconds between rounds of asking the brokers, at least; never more than one part of the time in ROUND_SHARE is spent asking."""

ROUND_SHARE = 6
"""With ten thousand partitions a round costs a broker some tenths of a second of its one loop."""

SAMPLE_MS_MAX = 10_000
"""Milliseconds between rounds, at most: a broker that was stopped for a minute must not make the figures old."""

SIZES_EVERY = 3
"""Rounds between questions for sizes, which cost the broker a walk over its partitions."""

ROUND_MS_MAX = 2_500
"""Milliseconds after which a round is closed without the brokers that have not answered; their answer counts in the next."""

SAMPLERS = 8
"""Threads that ask brokers: one slow broker takes one of them."""

DRIFT_MS = 5_000
"""Between counts of topics that differ between database and cluster: 30 ms with ten thousand topics."""

ALERTS_MS = 2_000
"""Between looks at what is wrong: some sums, 10 ms with ten thousand topics."""

ALERTS_FIRST_MS = 5_000
"""Before the first of them: who is the controller, and who answers, has been heard by then."""

SETTLED_MS = 15_000

FINDINGS_MS = 2_000
"""Between readings of what brokers tell of their damaged copies: two small lists and a node for each that tells something."""


def clock() -> Now:
    return Now(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)


class Observer:
    def __init__(self, store: Store, hub: Hub) -> None:
        self._store, self._hub = store, hub
        self.tailer = Tailer(store, self, clock)
        self.mirror = Mirror()
        self.book = Book()
        self._changed = Changed()
        self._answers: deque[tuple[int, BrokerSample | NoAnswer]] = deque()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._pool = ThreadPoolExecutor(SAMPLERS, thread_name_prefix="sampler")
        self._doors: dict[int, Connection] = {}
        self._asking: dict[int, int] = {}
        self._round: dict[int, BrokerSample | NoAnswer] = {}
        self._round_asked: set[int] = set()
        self._round_at_ms = self._round_not_before_ms = self._round_took_ms = self._rounds = 0
        self._starts: dict[int, dict[Key, int]] = {}
        self._began_ms = clock().mono_ms
        self._dirty = True
        self._mirrored_ms = self._touched_ms = -TOUCH_MS
        self._loaded = False
        self._controller_id: int | None = None
        self._connected = False
        self._sampled = False
        self._sample_note = ""
        self._stopping = False
        self._ill = False
        self._thread: threading.Thread | None = None
        self._feed = feed.Feed(hub)
        self._findings = findings.Reader(store)
        self._found_ms = 0
        self._drift_ms = -DRIFT_MS
        self._alerts_ms = self._began_ms + ALERTS_FIRST_MS - ALERTS_MS
        store.on_session = self._session

    # -- life ----------------------------------------------------------------------------------------------------------
    def start(self) -> None:
        self._thread = threading.Thread(target=self.run, name="observer", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        self._stopping = True
        os.eventfd_write(self._wake, 1)
        if self._thread is not None:
            self._thread.join(timeout_s)

    def run(self) -> None:
        self._be_impatient()
        poll = select.poll()
        poll.register(self._store.fileno(), select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while not self._stopping:
            poll.poll(100)
            try:
                self.turn()
            except DatabaseError as e:
                self._database_failed(e)
            except Exception:
                # A fault of ours must not leave pages with figures that only grow old: start over from the rows.
                log.exception("the observer stumbled and looks again")
                self.mirror.forget()
                self._dirty = True
                time.sleep(1)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._store.close()
        connection.close()

    def _be_impatient(self) -> None:
        """On SQLite, meet a lock with an error after a second: this thread has the log to follow and tries again anyway."""
        if connection.vendor == "sqlite":
            try:
                with connection.cursor() as cursor:
                    cursor.execute("PRAGMA busy_timeout = 1000")
            except DatabaseError as e:
                self._database_failed(e)

    def turn(self) -> None:
        """One turn: what ZooKeeper and the brokers said, then rows and feed. Raises DatabaseError; nothing is lost by it."""
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            pass
        self._store.pump()
        now = clock()
        self.tailer.tick(now)
        if not self._loaded:
            if now.mono_ms - self._touched_ms >= TOUCH_MS:
                self._touched_ms = now.mono_ms
                self._touch(False)
                self._look_for_alerts(now)
            return
        image = self.tailer.image
        if self._dirty and now.mono_ms - self._mirrored_ms >= MIRROR_MS_MIN:
            self._mirrored_ms = now.mono_ms
            difference = self.mirror.write(image)
            self._dirty = False
            self._feed.image(image, difference, self.book)
        self._sample(image, now)
        if now.mono_ms - self._touched_ms >= TOUCH_MS:
            self._touched_ms = now.mono_ms
            if drop_if_replaced():
                log.warning("the database file was replaced; what is observed is written anew")
                self._be_impatient()
                self.book = Book()
                self.mirror.forget()
                self._dirty = True
                return
            self._touch(self.tailer.current)
            self._look_at_findings(image, now)
            self._look_for_alerts(now)
            self._feed.periodic()
        if self._ill:
            self._ill = False
            log.info("the database answers again")

    def _look_for_alerts(self, now: Now) -> None:
        if now.mono_ms - self._alerts_ms >= ALERTS_MS:
            self._alerts_ms = now.mono_ms
            alerts.look()

    def _look_at_findings(self, image: Image, now: Now) -> None:
        if self._findings.found is not None:
            findings.write(self._findings.found, image)
        if self._connected and now.mono_ms - self._found_ms >= FINDINGS_MS:
            self._found_ms = now.mono_ms
            self._findings.look()

    def _touch(self, fresh: bool) -> None:
        self._store.get(znodes.CONTROLLER, self._controller_read) if self._connected else None
        self.mirror.touch(
            self.tailer.image,
            controller_id=self._controller_id,
            connected=self._connected,
            fresh=fresh and self._connected,
            sampled=self._sampled,
            sample_note=self.tailer.halted or self._sample_note,
            drift=self._drift(),
        )
        self._sampled = False

    def _drift(self) -> int | None:
        from controlplane.selectors.topics import drift_count

        now_ms = clock().mono_ms
        if not self._loaded or now_ms - self._drift_ms < DRIFT_MS:
            return None
        self._drift_ms = now_ms
        return drift_count()

    def _database_failed(self, error: DatabaseError) -> None:
        self.mirror.forget()
        self._dirty = True
        if not self._ill:
            log.warning("the database does not answer; what is observed waits in memory: %s", error)
        self._ill = True
        # Keep the connection (and its impatience) where it is still good.
        if not connection.is_usable():
            connection.close()
            self._be_impatient()
        time.sleep(0.2)

    # -- the metadata log ----------------------------------------------------------------------------------------------
    def _session(self, state: SessionState) -> None:
        self._connected = state is SessionState.CONNECTED
        if self._connected:
            self.tailer.connected()
        else:
            self.tailer.disconnected()
            self._findings.lost()

    def image_loaded(self, image: Image, now: Now) -> None:
        self._dirty = True

    def entry_applied(self, image: Image, records: Sequence[Record], now: Now) -> None:
        self._dirty = True

    def caught_up(self, image: Image, now: Now) -> None:
        self._loaded = True

    def halted(self, reason: str) -> None:
        """The rows stay as they are and grow old, which pages show."""

    def _controller_read(self, result: Result) -> None:
        if result.ok:
            self._controller_id = _number_of(result.data)
        elif result.code is Code.NO_NODE:
            self._controller_id = None

    # -- the brokers -----------------------------------------------------------------------------------------------------
    def _sample(self, image: Image, now: Now) -> None:
        while self._answers:
            broker_id, answer = self._answers.popleft()
            asked_ms = self._asking.pop(broker_id, now.mono_ms)
            if isinstance(answer, BrokerSample):
                self._round_took_ms = max(self._round_took_ms, now.mono_ms - asked_ms)
            self._round[broker_id] = answer
        waiting = self._round_asked - set(self._round)
        if self._round_asked and (not waiting or now.mono_ms - self._round_at_ms >= ROUND_MS_MAX):
            self._close_round(image, now, waiting)
        if not self._round_asked and now.mono_ms >= self._round_not_before_ms:
            self._open_round(image, now)

    def _open_round(self, image: Image, now: Now) -> None:
        self._round_at_ms = now.mono_ms
        self._rounds += 1
        leads: dict[int, dict[str, list[int]]] = {}
        for topic, index, state in image.each_partition():
            if state.leader != NO_LEADER and topic.ready:
                leads.setdefault(state.leader, {}).setdefault(topic.name, []).append(index)
        with_sizes = self._rounds % SIZES_EVERY == 1
        for broker in image.live_brokers():
            self._round_asked.add(broker.broker_id)
            if broker.broker_id in self._asking:
                continue  # still at it from an earlier round: a slow broker is not asked twice
            door = self._doors.get(broker.broker_id)
            address = address_of(broker)
            if door is None or (door.host, door.port) != address:
                door = self._doors[broker.broker_id] = Connection(*address)
            self._asking[broker.broker_id] = now.mono_ms
            self._pool.submit(self._ask, door, broker.broker_id, leads.get(broker.broker_id, {}), with_sizes)

    def _ask(self, door: Connection, broker_id: int, leads: dict[str, list[int]], with_sizes: bool) -> None:
        answer: BrokerSample | NoAnswer
        try:
            answer = sample_broker(
                door, broker_id, leads, self._starts.setdefault(broker_id, {}), with_sizes=with_sizes
            )
        except NoAnswer as e:
            answer = e
        except Exception as e:
            log.exception("broker %s could not be sampled", broker_id)
            door.close()
            answer = NoAnswer(str(e))
        self._answers.append((broker_id, answer))
        if not self._stopping:
            os.eventfd_write(self._wake, 1)

    def _close_round(self, image: Image, now: Now, waiting: set[int]) -> None:
        samples = [a for a in self._round.values() if isinstance(a, BrokerSample)]
        failed = {b: str(a) for b, a in self._round.items() if isinstance(a, NoAnswer) and image.alive(b)}
        failed |= {b: f"broker {b} has not answered for {ROUND_MS_MAX} ms" for b in waiting if image.alive(b)}
        asked = len(self._round_asked)
        pause_ms = min(max(SAMPLE_MS, ROUND_SHARE * self._round_took_ms), SAMPLE_MS_MAX)
        self._round_not_before_ms, self._round_took_ms = self._round_at_ms + pause_ms, 0
        self._round, self._round_asked = {}, set()
        self.book.settled = now.mono_ms - self._began_ms > SETTLED_MS and not failed
        changed = self.book.take(samples, failed, image, now.wall_ms)
        self._sampled = bool(samples)
        self._sample_note = f"{len(samples)} of {asked} brokers answered" if failed else ""
        self._feed.samples(changed, self.book)
        _merge(self._changed, changed)
        if self._dirty:
            return  # rows of new partitions come first; the figures are written with the next round
        self.book.write(self._changed, self.mirror, image)
        self._changed = Changed()


def _merge(into: Changed, more: Changed) -> None:
    for name in Changed.__dataclass_fields__:
        getattr(into, name).update(getattr(more, name))


def _number_of(data: bytes) -> int | None:
    """The controller's number out of its name (`controller-2`)."""
    try:
        found = re.search(r"(\d+)$", str(json.loads(data)["controller"]))
        return int(found.group(1)) if found else None
    except (ValueError, KeyError, TypeError):
        return None


def build(zookeeper: str, hub: Hub) -> Any:
    """The observer of this house, not yet started."""
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    client_settings()  # a file that cannot be used is told at the start, not at each look
    return Observer(zookeeper_store(zookeeper, 6000), hub)
