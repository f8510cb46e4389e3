"""A cluster in a world: complete brokers and controllers as they are shipped, on a simulated disk, network and ZooKeeper ensemble.

Real: all of brokerd except the sockets, the lock file and the second thread; the controller's core, appender, ensemble, runner and snapshots.
Simulated: world, ensemble, network, disk, and the database (desired rows in memory, shared by the controllers like one database).
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

from brokerd.apis.share_observer import ShareObserver
from brokerd.cluster.appender import RECORDS_PER_ENTRY
from brokerd.cluster.configs import BROKER_SYNONYMS
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import MetadataRecord
from brokerd.cluster.requests import CreateTopics, ForwardedRequest
from brokerd.cluster.snapshots import LOG_BYTES_PER_SNAPSHOT
from brokerd.config.broker import RACK_AWARE, BrokerConfig
from brokerd.delivery.limits import DEFAULT_LIMITS, DeliveryLimits
from brokerd.membership.identity import BrokerIdentity, IdentityError
from brokerd.net.thread_times import ThreadTimes
from brokerd.replication.partition import Role
from brokerd.replication.truncations import Truncation
from brokerd.runtime.broker import BrokerServer
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.storage.meta_properties import META
from brokerd.storage.probe_file import write_probe
from brokerd.storage.read_ahead import ReadAhead
from controlplane.controller.events import (
    DesiredAccess,
    DesiredAssignment,
    DesiredRead,
    DesiredReset,
    DesiredTopic,
    LoggedChange,
    Report,
    ReportKind,
)
from controlplane.controller.runner import TICK_MS, Controller
from controlplane.domain.audit_operation import AuditOperation
from tests.simulation.disk import NO_BOUND, DiskHangs, SimDisk
from tests.simulation.ensemble import Ensemble
from tests.simulation.network import Network, SimListener, SimPeer
from tests.simulation.probes import NO_PROBES, ProbeAccuracy, SimProbes
from tests.simulation.remote_helper import MemoryStore, SimRemoteHelper
from tests.simulation.store import SimStore
from tests.simulation.world import MS, Event, Node, World

if TYPE_CHECKING:
    from tests.simulation.archive import Archive

SESSION_MS = 3_000
SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "replica.lag.time.max.ms": "3000",
    "replica.socket.timeout.ms": "2000",
    "auto.create.topics.enable": "false",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.session.timeout.ms": "2000",
    "group.consumer.heartbeat.interval.ms": "400",
    "group.consumer.min.heartbeat.interval.ms": "400",
    "log.scrub.io.max.bytes.per.second": "0",  # no bits rot in these worlds
    "weir.log.dir.probe.interval.ms": "0",  # only the worlds of `test_disk_health` have slow and hung disks
}


SESSION_SLOTS = ("2", "1000", "1")
"""Limits of fetch sessions: a broker with enough, one whose followers and readers evict each other, and one without any."""
REQUEST_US, REQUEST_US_PER_KIB = 150, 5
"""Cost of a request on a broker's event loop: about the measured cost of a produce request with one small batch on two cores."""
FSYNC_US = 3 * MS
SLOW_US = (500 * MS, 4_000 * MS)
"""A busy disk: each flush takes that long."""
ITERATION_US_MAX = 100 * MS
"""The longest allowed iteration of a broker's event loop: it never waits for a disk, and work that grows with a request is done in slices."""
SESSIONS_LAST_US = (300 * MS, 8_000 * MS)


MARK_MS = 5
"""Duration of the job that writes the running marks."""


class SimJobs:
    """Jobs of the second thread; the world decides when they run."""

    def __init__(self, node: BrokerNode, network: Network) -> None:
        self._node, self._network = node, network
        self.running = False
        """True while a job runs: its cost is not the event loop's."""

    def submit(
        self, run: Callable[[], object], done: Callable[[BaseException | None], None], *, urgent: bool = False
    ) -> None:
        if getattr(run, "__func__", None) is BrokerIdentity.mark_running:
            self.submit_after(run, done, MARK_MS * MS)  # no random draw: the marks change no world
            return
        delay_us = self._node.world.between(1 * MS, (20 if urgent else 200) * MS)
        self.submit_after(run, done, delay_us + self._node.device_us())

    def submit_after(
        self, run: Callable[[], object], done: Callable[[BaseException | None], None], delay_us: int
    ) -> None:
        def finish() -> None:
            error: BaseException | None = None
            self.running, spent_us = True, self._node.world.spent_us
            try:
                run()
            except DiskHangs:
                self._node.world.reached["a job waits for a hung disk"] += 1
                return
            except Exception as e:
                error = e
            finally:
                self.running, self._node.world.spent_us = False, spent_us  # the job's cost is the second thread's
            done(error)

        self._node.post(delay_us, finish)

    def background(self, run: Callable[[], None]) -> None:
        self.submit(run, lambda error: None)

    def replace_stuck(self, running_s: float) -> int:
        return 0  # every job has a thread of its own here

    def fileno(self) -> int:
        return -1

    def pump(self) -> None:
        pass

    def close(self) -> None:
        pass


class SimDiskProbes:
    """The thread of a log directory. Its work takes as long as the test says. In worlds without probes the work is done at once, so that their seeds keep
    their meaning."""

    def __init__(self, node: BrokerNode, jobs: SimJobs) -> None:
        self._node, self._jobs = node, jobs

    def submit(
        self, run: Callable[[], object], done: Callable[[BaseException | None], None], *, urgent: bool = False
    ) -> None:
        if self._node.broker_settings["weir.log.dir.probe.interval.ms"] != "0":
            self._jobs.submit_after(run, done, self._node.probe_ms * MS)
            return
        error: BaseException | None = None
        try:
            run()
        except (DiskFailed, DiskFull) as e:
            error = e
        done(error)


class SimReads(SimJobs):
    """Reads of bytes outside the page cache."""

    def submit(
        self, run: Callable[[], object], done: Callable[[BaseException | None], None], *, urgent: bool = False
    ) -> None:
        self._node.world.reached["read waited for the disk"] += 1
        self.submit_after(run, done, self._network.load_us())


class SimEnvironment:
    def __init__(self, network: Network, node: BrokerNode, disk: SimDisk, boot_id: str) -> None:
        self._network, self._node = network, node
        self.loop, self.disk, self.boot_id = node.loop, disk, boot_id
        self.jobs, self.decompression_jobs = SimJobs(node, network), SimJobs(node, network)
        self.read_ahead = ReadAhead(SimReads(node, network))

    def listen(self, host: str, port: int, on_frame: Any, **limits: int) -> SimListener:
        return SimListener(self._network, self._node, host, port, on_frame)

    def connect(
        self, host: str, port: int, *, timeout_ms: int, frame_bytes_max: int, abortive: bool = False
    ) -> SimPeer:
        return SimPeer(self._network, self._node, host, port, timeout_ms, abortive=abortive)

    def remote_helper(self, settings: Callable[[], Mapping[str, Any]]) -> SimRemoteHelper:
        cluster = self._node.cluster
        self._node.remote_helper = SimRemoteHelper(self._node, self.disk, cluster.remote_store, cluster.remote_rng)
        return self._node.remote_helper

    def thread_times(self) -> ThreadTimes | None:
        return self._node.thread_times()

    def probe_lane(self) -> SimDiskProbes:
        return SimDiskProbes(self._node, self.jobs)

    def probe_disk(self, folder: Path) -> int:
        write_probe(self.disk, folder)
        return self._node.probe_ms

    descriptors_max = 1 << 10

    def lock(self, folder: Path) -> bool:
        return True

    def draw_id(self) -> str:
        return str(UUID(int=self._node.world.rng.getrandbits(128)))

    def draw_life(self) -> str:
        return f"{self._node.name}-{next(self._node.cluster.lives)}"  # type: ignore[attr-defined]

    def draw_producer_id(self) -> int:
        return self._node.world.rng.getrandbits(62)


class BrokerNode(Node):
    def __init__(self, cluster: Cluster, broker_id: int) -> None:
        super().__init__(cluster.world, f"broker-{broker_id}")
        self.cluster, self.broker_id = cluster, broker_id
        self.disk = SimDisk()
        self.disk.mkdir(Path("/data"))
        self.address = (f"10.0.0.{broker_id}", 9092)
        self.boot = 1
        self.probe_ms = 5
        """Time of a probe of its log directories."""
        self.slow_until_us = 0
        """Until this time each flush of its disk takes seconds."""
        self.broker: BrokerServer
        self.store: SimStore
        self.remote_helper: SimRemoteHelper | None = None
        self.thread_times: Callable[[], ThreadTimes | None] = lambda: None
        self.waited_for_disk = ""
        """The calls for which the event loop waited while it served clients; must stay empty."""
        self._truncations: tuple[SimDisk, frozenset[Truncation]] = (self.disk, frozenset())
        """The disk that the last process left, and the truncations that it had reported."""
        self._start()

    def _start(self) -> None:
        given = {
            **SETTINGS,
            "log.dirs": "/data",
            "max.incremental.fetch.session.cache.slots": SESSION_SLOTS[self.broker_id % 3],
            **self.cluster.settings,
            "broker.id": str(self.broker_id),
            "listeners": f"PLAINTEXT://{self.address[0]}:{self.address[1]}",
        }
        if self.cluster.racks:
            given |= {
                "broker.rack": f"rack-{self.broker_id % self.cluster.racks}",
                "replica.selector.class": RACK_AWARE,
            }
        self.broker_settings = given
        config = BrokerConfig.parse(given, BROKER_SYNONYMS.__contains__)
        outside: Any = SimEnvironment(self.cluster.network, self, self.disk, f"boot-{self.broker_id}-{self.boot}")

        def connect() -> SimStore:
            self.store = SimStore(self.cluster.ensemble, self, SESSION_MS)
            return self.store

        self.loop.now = self.clock()
        self.disk.flushes = lambda what: None  # no client is served yet
        self.broker = BrokerServer(config, connect, outside, self.cluster.share_observer, self.cluster.limits)
        self._check_truncations()
        jobs, broker, life = outside.jobs, self.broker, self.life

        def flushes(what: str) -> None:
            if not jobs.running:
                self.world.spend(FSYNC_US + self.device_us())
            if (
                self.life == life
                and broker.membership.broker_epoch is not None
                and not (jobs.running or broker.stopping)
            ):
                self.waited_for_disk = what

        self.disk.flushes = flushes
        self.disk.cold = lambda: self.cluster.disk_rng.random() < self.cluster.cold
        self.broker.replica_manager.pending_openings.per_iteration = 1  # a topic's partitions open in different turns
        self.post(self.world.between(*SESSIONS_LAST_US), self._lose_sessions)

    def _check_truncations(self) -> None:
        """A restarted broker reports what the last process had reported, if its disk kept all writes."""
        from tests.simulation.checkers import Violation

        disk, reported = self._truncations
        if disk is self.disk and reported:
            self.world.reached["truncation reported after a restart"] += 1
            if lost := reported - set(self.broker.replica_manager.truncations):
                raise Violation(f"{self.name} does not report its truncations after a restart: {sorted(lost)}")

    def _lose_sessions(self) -> None:
        """Drops all fetch sessions, as if others had evicted them."""
        if len(self.broker.fetch_sessions):
            self.world.reached["fetch sessions lost"] += 1
            self.broker.fetch_sessions.end_all()
        self.post(self.world.between(*SESSIONS_LAST_US), self._lose_sessions)

    def request_us(self, size: int) -> int:
        return REQUEST_US + size * REQUEST_US_PER_KIB // 1024

    def device_us(self) -> int:
        """Extra time of a flush on a slow disk."""
        return self.world.between(*SLOW_US) if self.world.now_us < self.slow_until_us else 0

    def on_iteration(self, spent_us: int) -> None:
        from tests.simulation.checkers import Violation

        if spent_us > ITERATION_US_MAX and not self.broker.stopping:
            raise Violation(f"{self.name}: one iteration of its event loop took {spent_us // MS} ms")

    def kill(self) -> None:
        if self.alive:
            self.crash()
            stored = self.broker.replica_manager.truncations
            reported = frozenset(stored) if stored.is_written and not self.disk.sick else frozenset()
            self.disk = self._disk_left()
            self._truncations = self.disk, reported

    def _disk_left(self) -> SimDisk:
        if self.disk.sick:
            self.world.reached["failed disk"] += 1
            return self.disk.after_io_error(self.world.rng, intact=META)
        return self.disk.killed()

    @property
    def is_degraded(self) -> bool:
        """The process is alive, but its disk fails, or has failed, or replicas are offline: until its restart."""
        offline = any(r.offline_reason for r in self.broker.replica_manager.hosted.values())
        return self.alive and (bool(self.disk.fail_at) or self.broker.identity.losses > 0 or offline)

    def disk_room(self, room: int) -> None:
        self.disk.bytes_max = self.disk.used() + room

    def disk_fails(self, steps: int, error: Exception) -> None:
        self.disk.fail_at[self.disk.steps + steps] = error

    def disk_whole(self) -> None:
        self.disk.bytes_max = NO_BOUND
        self.disk.fail_at.clear()

    def enter(self, event: Event) -> None:
        def run_iteration() -> None:
            try:
                super(BrokerNode, self).enter(event)
            except DiskFailed:  # as Broker.run does
                self.broker.identity.tail_in_doubt()
                raise

        self._run_guarded(run_iteration)

    def _run_guarded(self, event: Event) -> None:
        """An exception that the broker does not handle ends its process."""
        try:
            event()
        except (DiskFull, DiskFailed, IdentityError) as e:
            at = " < ".join(
                f"{f.filename.rpartition('/')[2]}:{f.lineno}" for f in traceback.extract_tb(e.__traceback__)[-2:-9:-1]
            )
            self.world.deliver(f"{self.name} ends: {e} at {at}")
            self.world.reached["broker ended by a disk failure"] += 1
            self.kill()

    def power_cut(self) -> None:
        if self.alive:
            self.crash()
            self.boot += 1
            before, self.disk = self.disk, self.disk.power_cut(self.world.rng)
            self.world.deliver(f"{self.name} lost power")
            left = {p: len(i.live) for p, i in self.disk.names.items()}
            if any(left.get(p, -1) < len(i.live) for p, i in before.names.items() if p.suffix == ".log"):
                self.world.reached["lost tail"] += 1

    def start(self) -> None:
        if not self.alive:
            self.live()
            self._run_guarded(self._start)

    def stop(self) -> None:
        """A controlled shutdown. The process ends when it is complete."""
        self.enter(self.broker.stop)

        def on_end() -> None:
            if self.broker.stopped:
                self.kill()
            else:
                self.post(20 * MS, on_end)

        self.post(20 * MS, on_end)


class SimDatabase:
    """One controller's access to the rows. `write` and `read` take time."""

    def __init__(self, cluster: Cluster, node: ControllerNode) -> None:
        self._cluster, self._node = cluster, node
        self._post: Callable[[Any], None] = lambda event: None
        self._epoch = 0
        self._last_us = 0

    def start(self, post: Callable[[Any], None]) -> None:
        self._post = post

    def deliver(self, read: DesiredRead) -> None:
        def on_report() -> None:
            self._post(read)
            self._node.run_iteration()

        # In the order of the writes: a database that returns a row returns every row committed before it.
        world = self._node.world
        self._last_us = max(self._last_us, world.now_us + world.between(1 * MS, 30 * MS))
        self._node.post(self._last_us - world.now_us, on_report)

    def begin_term(self, controller_epoch: int) -> None:
        self._epoch = controller_epoch
        self._cluster.acting = self
        self.deliver(DesiredRead((*self._cluster.deleted, *self._cluster.topics.values()), complete=True))

    def stand_by(self) -> None:
        pass

    def write(self, request: ForwardedRequest) -> None:
        payload = request.payload
        assert isinstance(payload, CreateTopics), f"no client of this world sends {request.kind}"
        for topic in payload.items:  # a broker with tiered storage creates the topic of its metadata
            if topic.name not in self._cluster.topics:
                configs = {k.replace(".", "_"): v for k, v in topic.configs.items() if v is not None}
                self._cluster.want_topic(topic.name, topic.partitions, topic.replication_factor, **configs)

    def on_applied(self, image: Image, records: Sequence[MetadataRecord]) -> None:
        pass

    def report(self, report: Report | LoggedChange) -> None:
        match report:
            case Report(kind=ReportKind.UNCLEAN):
                self._cluster.reported_unclean(report.subject.topic, report.subject.partition or 0)
            case LoggedChange(verb=AuditOperation.TOPIC_ELECT_UNCLEAN_AUTOMATICALLY):
                self._cluster.unclean_changes |= {(report.object_name, int(index)) for index in report.after or {}}

    def close(self) -> None:
        pass


COLD = (0, 0.01, 0.1)
"""The share of reads whose bytes are not in the page cache, by seed."""


class ControllerNode(Node):
    def __init__(self, cluster: Cluster, number: int) -> None:
        super().__init__(cluster.world, f"controller-{number}")
        self.cluster = cluster
        self.controller: Controller
        self.store: SimStore
        self._start()

    def _start(self) -> None:
        self.store = SimStore(self.cluster.ensemble, self, SESSION_MS, wake=self.run_iteration)
        self.database = SimDatabase(self.cluster, self)
        self.probes = SimProbes(self.cluster, self)
        rng = self.world.rng
        self.controller = Controller(
            self.store,
            self.name,
            self.database,
            clock=self.clock,
            draw=lambda: f"{rng.getrandbits(128):032x}",
            snapshot_log_bytes=self.cluster.snapshot_log_bytes,
            records_per_entry=self.cluster.records_per_entry,
            probes=self.probes,
        )
        self._tick()

    def _tick(self) -> None:
        self.run_iteration()
        self.post(TICK_MS * MS, self._tick, timer=True)

    def run_iteration(self) -> None:
        self.controller.run_iteration()

    @property
    def is_acting(self) -> bool:
        return self.alive and self.controller.appender is not None

    def start(self) -> None:
        if not self.alive:
            self.live()
            self._start()


class Cluster:
    def __init__(
        self,
        world: World,
        brokers: int = 3,
        controllers: int = 2,
        settings: dict[str, str] | None = None,
        snapshot_log_bytes: int = LOG_BYTES_PER_SNAPSHOT,
        records_per_entry: int = RECORDS_PER_ENTRY,
        store_lag_ms: int = 0,
        probes: ProbeAccuracy = NO_PROBES,
        cold: float = 0,
        racks: int = 0,
        *,
        share_observer: ShareObserver | None = None,
        limits: DeliveryLimits = DEFAULT_LIMITS,
    ) -> None:
        """`racks`: brokers are spread over that many racks, and consumers may read from the closest replica (KIP-392). `limits`: of the delivery of delayed
        messages and half messages."""
        self.limits = limits
        self.probes, self.cold, self.racks, self.share_observer = probes, cold, racks, share_observer
        self.lives = count(1)
        # A separate random generator: a world without this option is unchanged.
        self.probes_rng, self.disk_rng = Random(world.seed), Random(world.seed)
        self.remote_rng = Random(world.seed)
        self.refusals: dict[tuple[str, int, int], list[int]] = {}
        """Times in microseconds of refused probes, by (controller, broker id, broker epoch)."""
        self.remote_store = MemoryStore(self.remote_rng)
        self.world, self.snapshot_log_bytes, self.records_per_entry = world, snapshot_log_bytes, records_per_entry
        self.settings = settings or {}
        self.ensemble = Ensemble(world, store_lag_ms)
        self.network = Network(world)
        self.topics: dict[str, DesiredTopic] = {}
        self.deleted: list[DesiredTopic] = []
        self.created: list[UUID] = []
        """Ids of all topics in the order of their creation requests."""
        self.elected_uncleanly: Callable[[str], None] = lambda topic: None
        self.unclean_reports: Counter[tuple[str, int]] = Counter()
        self.unclean_changes: set[tuple[str, int]] = set()
        """Topic and partition of automatic unclean leader elections that the audit log has. The checker removes them."""
        self.acting: SimDatabase | None = None
        self.archive: Archive | None = None
        """Everything that was ever committed, in worlds whose logs are truncated."""
        self.brokers = {i: BrokerNode(self, i) for i in range(1, brokers + 1)}
        self.controllers = [ControllerNode(self, i) for i in range(1, controllers + 1)]

    # -- requests of operators ---------------------------------------------------------------------------------------------
    def want_topic(self, name: str, partitions: int, replicas: int, **configs: str) -> UUID:
        topic_id = UUID(int=self.world.rng.getrandbits(128))
        dotted = {k.replace("_", "."): v for k, v in configs.items()}
        self.created.append(topic_id)
        self._want_row(DesiredTopic(topic_id, name, 1, False, partitions, replicas, dotted))
        return topic_id

    def _want_row(self, row: DesiredTopic) -> None:
        self.topics[row.name] = row
        if self.acting is not None:
            self.acting.deliver(DesiredRead((row,)))

    def change_topic(self, name: str, **configs: str) -> None:
        row = self.topics[name]
        dotted = {k.replace("_", "."): v for k, v in configs.items()}
        self._want_row(replace(row, generation=row.generation + 1, configs={**row.configs, **dotted}))

    def grow_topic(self, name: str, partitions: int) -> None:
        row = self.topics[name]
        self._want_row(replace(row, generation=row.generation + 1, partitions=partitions))

    def delete_topic(self, name: str) -> None:
        row = self.topics.pop(name)
        self.deleted.append(replace(row, generation=row.generation + 1, deleted=True))
        if self.acting is not None:
            self.acting.deliver(DesiredRead((self.deleted[-1],)))

    def deliver_desired(self, *rows: DesiredAssignment | DesiredReset | DesiredAccess) -> None:
        assert self.acting is not None
        self.acting.deliver(
            DesiredRead(
                access=tuple(r for r in rows if isinstance(r, DesiredAccess)),
                assignments=tuple(r for r in rows if isinstance(r, DesiredAssignment)),
                resets=tuple(r for r in rows if isinstance(r, DesiredReset)),
            )
        )

    def reported_unclean(self, topic: str, index: int) -> None:
        from tests.simulation.checkers import Violation

        wanted = self.topics.get(topic)
        if wanted is None or wanted.configs.get("unclean.leader.election.enable") != "true":
            raise Violation(f"{topic}-{index}: an unclean leader election is reported, but the topic does not allow it")
        self.unclean_reports[topic, index] += 1

    # -- state of the cluster --------------------------------------------------------------------------------------------------
    @property
    def image(self) -> Image:
        """The newest image of any node."""
        images = [c.controller.tailer.image for c in self.controllers] + [
            b.broker.membership.image for b in self.brokers.values()
        ]
        return max(images, key=lambda i: i.seq)

    def is_settled(self) -> bool:
        """All nodes are alive and in sync: every partition has a leader, every replica is in its ISR, every broker is at the metadata log's head."""
        image = self.image
        return (
            all(
                b.alive and not b.frozen and b.broker.replica_manager.image.seq == image.seq
                for b in self.brokers.values()
            )
            and len(image.live_brokers()) == len(self.brokers)
            and bool(self.topics)
            and all(self.is_known(row) for row in self.topics.values())
            and all(row.topic_id not in image.topics for row in self.deleted)
            and all(
                p.leader >= 0 and set(p.isr_ids) == set(p.replicas) and not p.reassigning and not p.observers
                for _, _, p in image.each_partition()
            )
        )

    def touched_brokers(self) -> Iterator[BrokerNode]:
        """The brokers that run and took part in this step of the world: only their state can have changed."""
        touched = self.world.touched
        return (n for n in self.brokers.values() if n.name in touched and n.alive and not n.frozen)

    def is_known(self, row: DesiredTopic) -> bool:
        topic = self.image.topic_named(row.name)
        return topic is not None and (topic.topic_id, topic.generation) == (row.topic_id, row.generation)

    def level(self) -> bool:
        """Settled, and every replica's high watermark is its log end offset: acknowledged records can be read from any replica."""
        replicas = [r for b in self.brokers.values() for r in b.broker.replica_manager.hosted.values()]
        counted = [r for r in replicas if r.core.role is not Role.HISTORY]
        return self.is_settled() and all(r.core.high_watermark == r.log.end_offset for r in counted)

    def run_until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        from tests.simulation.checkers import Violation

        deadline = self.world.now_us + int(seconds * 1_000_000)
        while not condition():
            if self.world.now_us >= deadline:
                raise Violation(f"waited {seconds} virtual seconds for {what}")
            self.world.run(min(deadline, self.world.now_us + 20 * MS))
