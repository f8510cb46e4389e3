"""The cluster monitor: tails the metadata log, samples the brokers, writes observed rows, publishes changes.

Invariants: it writes only observed rows and makes no decisions. A broker, ZooKeeper or a database that hangs delays only its own metrics.
One thread for log and rows, several for brokers. The web process (ASGI lifespan) or `manage.py monitor` starts it.
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

from django.db import DatabaseError, connection

from brokerd.cluster import znodes
from brokerd.cluster.clocks import read_clocks
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import MetadataRecord
from brokerd.cluster.model import NO_LEADER, Now
from brokerd.cluster.store import Code, Result, SessionState, Store
from brokerd.cluster.tailer import Tailer
from controlplane.clients.broker_samples import BrokerSample, sample_broker
from controlplane.clients.connection import KafkaConnection, NoResponse
from controlplane.clients.group_samples import Key
from controlplane.clients.settings import address_of, client_settings, zookeeper_store
from controlplane.db.sqlite import drop_if_replaced
from controlplane.domain.times import utc_of_ms
from controlplane.monitoring import connect_clusters, damage, publisher, share_dead_letter_rows
from controlplane.monitoring.hanging_transactions import HangingTransactionMonitor
from controlplane.monitoring.history import HistoryRecorder
from controlplane.monitoring.hub import Hub
from controlplane.monitoring.message_metrics import COLLECT_MS, MessageMetricCollector
from controlplane.monitoring.metadata_history import MetadataHistoryRecorder
from controlplane.monitoring.other_clusters import ROUND_MS, OtherClusterReader
from controlplane.monitoring.periodic import PeriodicJob
from controlplane.monitoring.projection import MetadataProjection
from controlplane.monitoring.samples import MetricsCache, SampleChanges
from controlplane.monitoring.truncations import TruncationRecorder
from controlplane.selectors import alert_thresholds
from controlplane.services import access, alerts, anomalies, document_drift, health

log = logging.getLogger(__name__)

PROJECTION_MS_MIN = 200
"""Minimum milliseconds between writes of a changing image: many elections become few writes."""

TOUCH_MS = 1_000
SAMPLE_MS = 1_000
"""Minimum milliseconds between sampling rounds. Sampling takes at most one part in ROUND_SHARE of the time."""

ROUND_SHARE = 6
"""Pause between two rounds. With ten thousand partitions a round takes some tenths of a second of a broker's event loop."""

SAMPLE_MS_MAX = 10_000
"""Maximum milliseconds between rounds: a broker that was stopped for a minute must not delay the metrics of others."""

SIZES_EVERY = 3
"""Rounds between requests for sizes, for which the broker iterates over its partitions."""

ROUND_MS_MAX = 2_500
"""Milliseconds after which a round ends without the missing responses. A late response counts in the next round."""

SAMPLERS = 8
"""Sampling threads: one slow broker occupies one of them."""

DRIFT_MS = 5_000
"""Time between counts of drifted topics: 30 ms with ten thousand topics."""

ALERTS_MS = 2_000
"""Time between alert evaluations: some sums, 10 ms with ten thousand topics."""

ALERTS_FIRST_MS = 5_000
"""Time before the first alert evaluation: the controller and the responding brokers are known by then."""

SETTLED_MS = 15_000

HEALTH_MS = 30_000
"""Time between health checks: they read a row of each topic and group."""

ANOMALIES_MS = 60_000
"""Time between searches for anomalies. They compare averages of ten minutes."""

DOCUMENTS_MS = 60_000
"""Time between comparisons of the applied documents with the cluster: each reads all topics and access entries."""

DAMAGE_MS = 2_000
"""Time between reads of damage reports: two small lists, and one node per broker with a report."""


class ClusterMonitor:
    def __init__(self, store: Store, hub: Hub) -> None:
        self._store, self._hub = store, hub
        self.tailer = Tailer(store, self, read_clocks)
        self.projection = MetadataProjection()
        self.metrics = MetricsCache()
        self._changed = SampleChanges()
        self._responses: deque[tuple[int, BrokerSample | NoResponse]] = deque()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._pool = ThreadPoolExecutor(SAMPLERS, thread_name_prefix="sampler")
        self._connections: dict[int, KafkaConnection] = {}
        self._asking: dict[int, int] = {}
        self._round: dict[int, BrokerSample | NoResponse] = {}
        self._round_asked: set[int] = set()
        self._round_at_ms = self._round_not_before_ms = self._round_took_ms = self._rounds = 0
        self._starts: dict[int, dict[Key, int]] = {}
        self._began_ms = read_clocks().mono_ms
        self._dirty = True
        self._projected_ms = self._touched_ms = -TOUCH_MS
        self._loaded = False
        self._controller_id: int | None = None
        self._connected = False
        self._sampled = False
        self._sample_note = ""
        self._stopping = False
        self.iterations = 0
        """Number of iterations of the loop, including failed ones. It does not increase while the loop hangs."""
        self._database_failing = False
        self._thread: threading.Thread | None = None
        self._feed = publisher.LivePublisher(hub)
        self._damage = damage.DamageReader(store)
        self._damage_read_ms = 0
        self._hanging = HangingTransactionMonitor(self._began_ms)
        self._history = HistoryRecorder()
        self._metadata_history = MetadataHistoryRecorder()
        self._truncations = TruncationRecorder()
        self._messages = MessageMetricCollector()
        self._jobs = (
            PeriodicJob("message metrics", self._messages.collect, COLLECT_MS, self._began_ms + ALERTS_FIRST_MS),
            PeriodicJob("connect clusters", connect_clusters.read_all, connect_clusters.ROUND_MS, self._began_ms),
            PeriodicJob("other clusters", OtherClusterReader(hub).read_all, ROUND_MS, self._began_ms),
            PeriodicJob("health", health.evaluate, HEALTH_MS, self._began_ms + SETTLED_MS),
            PeriodicJob("anomalies", anomalies.evaluate, ANOMALIES_MS, self._began_ms + ANOMALIES_MS),
            PeriodicJob("document drift", document_drift.measure, DOCUMENTS_MS, self._began_ms + SETTLED_MS),
        )
        self._drift_ms = -DRIFT_MS
        self._alerts_ms = self._began_ms + ALERTS_FIRST_MS - ALERTS_MS
        store.on_session = self._session

    # -- lifecycle -----------------------------------------------------------------------------------------------------
    def start(self) -> None:
        self._thread = threading.Thread(target=self.run, name="monitor", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        self._stopping = True
        os.eventfd_write(self._wake, 1)
        if self._thread is not None:
            self._thread.join(timeout_s)

    def run(self) -> None:
        self._shorten_busy_timeout()
        poll = select.poll()
        poll.register(self._store.fileno(), select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while not self._stopping:
            poll.poll(100)
            self.iterations += 1
            try:
                self.run_iteration()
            except DatabaseError as e:
                self._database_failed(e)
            except Exception:
                # A bug must not stop all updates of the pages, so compare with the rows and continue.
                log.exception("cluster monitor iteration failed, retrying")
                self.projection.forget()
                self._dirty = True
                time.sleep(1)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._store.close()
        connection.close()

    def _shorten_busy_timeout(self) -> None:
        """On SQLite, fail on a lock after a second: this thread must follow the log, and it tries again anyway."""
        if connection.vendor == "sqlite":
            try:
                with connection.cursor() as cursor:
                    cursor.execute("PRAGMA busy_timeout = 1000")
            except DatabaseError as e:
                self._database_failed(e)

    def run_iteration(self) -> None:
        """One iteration: handle input from ZooKeeper and brokers, then write rows and publish. Raises DatabaseError without data loss."""
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            pass
        self._store.pump()
        now = read_clocks()
        self.tailer.tick(now)
        if not self._loaded:
            if now.mono_ms - self._touched_ms >= TOUCH_MS:
                self._touched_ms = now.mono_ms
                self._touch(False)
                self._metadata_history.observe(self.tailer.image, self._pool, now.wall_ms, complete=False)
                self._check_alerts(now)
            return
        image = self.tailer.image
        if self._dirty and now.mono_ms - self._projected_ms >= PROJECTION_MS_MIN:
            self._projected_ms = now.mono_ms
            difference = self.projection.write(image)
            self._dirty = False
            self._feed.image(image, difference, self.metrics)
        self._sample(image, now)
        if now.mono_ms - self._touched_ms >= TOUCH_MS:
            self._touched_ms = now.mono_ms
            if drop_if_replaced():
                log.warning("database file was replaced, writing all observed rows again")
                self._shorten_busy_timeout()
                self.metrics = MetricsCache()
                self._history = HistoryRecorder()
                self._metadata_history = MetadataHistoryRecorder()
                self._truncations = TruncationRecorder()
                self._metadata_history.image_loaded(image, now.wall_ms)
                self.projection.forget()
                self._dirty = True
                return
            self._touch(self.tailer.current)
            self._update_damage(image, now)
            self._hanging.poll(self._pool, now.mono_ms)
            self._metadata_history.observe(image, self._pool, now.wall_ms, complete=True)
            self._check_alerts(now)
            for job in self._jobs:
                job.poll(self._pool, now.mono_ms)
            self._feed.periodic()
            self._feed.messages(self._messages.latest, now.wall_ms)
        if self._database_failing:
            self._database_failing = False
            log.info("database available again")

    def _check_alerts(self, now: Now) -> None:
        if now.mono_ms - self._alerts_ms >= ALERTS_MS:
            self._alerts_ms = now.mono_ms
            thresholds = alert_thresholds.current_thresholds()
            self.metrics.use_thresholds(thresholds)
            began_ms = now.wall_ms - (now.mono_ms - self._began_ms)
            alerts.evaluate(thresholds, utc_of_ms(began_ms))

    def _update_damage(self, image: Image, now: Now) -> None:
        if self._damage.found is not None:
            damage.write(self._damage.found, image)
        if self._connected and now.mono_ms - self._damage_read_ms >= DAMAGE_MS:
            self._damage_read_ms = now.mono_ms
            self._damage.poll()

    def _touch(self, fresh: bool) -> None:
        drift, access_missing = self._compared_with_log()
        self._store.get(znodes.CONTROLLER, self._controller_read) if self._connected else None
        self.projection.touch(
            self.tailer.image,
            controller_id=self._controller_id,
            connected=self._connected,
            fresh=fresh and self._connected,
            sampled=self._sampled,
            sample_note=self.tailer.halted or self._sample_note,
            drift=drift,
            access_missing=access_missing,
        )
        self._sampled = False

    def _compared_with_log(self) -> tuple[int | None, int | None]:
        """(drifted topics, access entries that the database misses); (None, None) between two counts."""
        from controlplane.selectors.topics import drift_count

        now_ms = read_clocks().mono_ms
        if not self._loaded or now_ms - self._drift_ms < DRIFT_MS:
            return None, None
        self._drift_ms = now_ms
        return drift_count(), access.missing_count(self.tailer.image)

    def _database_failed(self, error: DatabaseError) -> None:
        self.projection.forget()
        self._dirty = True
        if not self._database_failing:
            log.warning("database unavailable, observed data is kept in memory: error=%s", error)
        self._database_failing = True
        # Keep a usable connection with its short busy time-out.
        if not connection.is_usable():
            connection.close()
            self._shorten_busy_timeout()
        time.sleep(0.2)

    # -- the metadata log ----------------------------------------------------------------------------------------------
    def _session(self, state: SessionState) -> None:
        self._connected = state is SessionState.CONNECTED
        if self._connected:
            self.tailer.on_connected()
        else:
            self.tailer.on_disconnected()
            self._damage.on_disconnected()

    def image_loaded(self, image: Image, now: Now) -> None:
        self._dirty = True
        self._metadata_history.image_loaded(image, now.wall_ms)

    def entry_applied(self, image: Image, records: Sequence[MetadataRecord], now: Now) -> None:
        self._dirty = True
        self._metadata_history.entry_applied(image, records, self.tailer.written_ms, now.wall_ms)

    def caught_up(self, image: Image, now: Now) -> None:
        self._loaded = True

    def on_halted(self, reason: str) -> None:
        """The rows are not updated any more. Pages show their age."""

    def _controller_read(self, result: Result) -> None:
        if result.ok:
            self._controller_id = _number_of(result.data)
        elif result.code is Code.NO_NODE:
            self._controller_id = None

    # -- the brokers -----------------------------------------------------------------------------------------------------
    def _sample(self, image: Image, now: Now) -> None:
        while self._responses:
            broker_id, response = self._responses.popleft()
            asked_ms = self._asking.pop(broker_id, now.mono_ms)
            if isinstance(response, BrokerSample):
                self._round_took_ms = max(self._round_took_ms, now.mono_ms - asked_ms)
            self._round[broker_id] = response
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
        stalled_shares = self.metrics.share_lags.stalled_partitions()
        for broker in image.live_brokers():
            self._round_asked.add(broker.broker_id)
            if broker.broker_id in self._asking:
                continue  # a request of an earlier round is still in flight
            broker_connection = self._connections.get(broker.broker_id)
            address = address_of(broker)
            if broker_connection is None or (broker_connection.host, broker_connection.port) != address:
                broker_connection = self._connections[broker.broker_id] = KafkaConnection(*address)
            self._asking[broker.broker_id] = now.mono_ms
            led = leads.get(broker.broker_id, {})
            stalled = self.metrics.lags.stalled_partitions(led, stalled_shares)
            self._pool.submit(self._request_sample, broker_connection, broker.broker_id, led, with_sizes, stalled)

    def _request_sample(
        self,
        broker_connection: KafkaConnection,
        broker_id: int,
        leads: dict[str, list[int]],
        with_sizes: bool,
        stalled: list[Key],
    ) -> None:
        response: BrokerSample | NoResponse
        try:
            response = sample_broker(
                broker_connection,
                broker_id,
                leads,
                self._starts.setdefault(broker_id, {}),
                with_sizes=with_sizes,
                stalled=stalled,
            )
        except NoResponse as e:
            response = e
        except Exception as e:
            log.exception("sampling failed: broker=%s", broker_id)
            broker_connection.close()
            response = NoResponse(str(e))
        self._responses.append((broker_id, response))
        if not self._stopping:
            os.eventfd_write(self._wake, 1)

    def _close_round(self, image: Image, now: Now, waiting: set[int]) -> None:
        samples = [a for a in self._round.values() if isinstance(a, BrokerSample)]
        failed = {b: str(a) for b, a in self._round.items() if isinstance(a, NoResponse) and image.alive(b)}
        failed |= {b: f"broker {b} has not answered for {ROUND_MS_MAX} ms" for b in waiting if image.alive(b)}
        requested = len(self._round_asked)
        pause_ms = min(max(SAMPLE_MS, ROUND_SHARE * self._round_took_ms), SAMPLE_MS_MAX)
        self._round_not_before_ms, self._round_took_ms = self._round_at_ms + pause_ms, 0
        self._round, self._round_asked = {}, set()
        self.metrics.settled = now.mono_ms - self._began_ms > SETTLED_MS and not failed
        self.metrics.restore()
        self.metrics.messages = self._messages.latest
        changed = self.metrics.apply(samples, failed, image, now.wall_ms)
        self._sampled = bool(samples)
        self._sample_note = f"{len(samples)} of {requested} brokers answered" if failed else ""
        self._feed.samples(changed, self.metrics)
        if samples:
            self._history.observe(image, self.metrics, self._pool, now.wall_ms)
        _merge(self._changed, changed)
        if self._dirty:
            return  # rows of new partitions are written first, the metrics with the next round
        self.metrics.write(self._changed, self.projection, image)
        self._changed = SampleChanges()
        at = utc_of_ms(now.wall_ms)
        share_dead_letter_rows.write(samples, at)
        self._truncations.write(samples, image, at)


def _merge(into: SampleChanges, more: SampleChanges) -> None:
    for name in SampleChanges.__dataclass_fields__:
        getattr(into, name).update(getattr(more, name))


def _number_of(data: bytes) -> int | None:
    """The controller's number from its name (`controller-2`)."""
    try:
        found = re.search(r"(\d+)$", str(json.loads(data)["controller"]))
        return int(found.group(1)) if found else None
    except (ValueError, KeyError, TypeError):
        return None


def build(zookeeper: str, hub: Hub) -> ClusterMonitor:
    """The cluster monitor, not yet started."""
    client_settings()  # an invalid file must fail at the start, not at each sample
    return ClusterMonitor(zookeeper_store(zookeeper, 6000), hub)
