"""A cluster in a world: whole brokers and controllers as they ship, on a simulated disk, network and ensemble.

Real: everything of brokerd but the sockets, the lock file and the other thread; the controller's core, appender, ensemble, runner and snapshots.
Simulated: world, ensemble, network, disk, and the database (desired rows in memory, shared by the controllers as one database is).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

from brokerd.broker import Broker
from brokerd.cluster.appender import RECORDS_PER_ENTRY
from brokerd.cluster.configs import BROKER_SYNONYMS
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import Record
from brokerd.cluster.model import Now
from brokerd.cluster.snapshots import LOG_BYTES_PER_SNAPSHOT
from brokerd.cluster.znodes import ForwardedRequest, Registration
from brokerd.config import BrokerConfig
from brokerd.identity import IdentityError
from brokerd.partition import Role
from brokerd.storage.disk import DiskFailed, DiskFull
from controlplane.controller.events import DesiredAssignment, DesiredRead, DesiredReset, DesiredTopic, Report
from controlplane.controller.runner import TICK_MS, Controller
from tests.simulation.disk import NO_BOUND, SimDisk
from tests.simulation.ensemble import Ensemble
from tests.simulation.network import Network, SimListener, SimPeer
from tests.simulation.store import SimStore
from tests.simulation.world import MS, Event, Node, World

if TYPE_CHECKING:
    from tests.simulation.archive import Archive

SESSION_MS = 3_000
SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_MS), "replica.lag.time.max.ms": "3000", "replica.socket.timeout.ms": "2000",
    "auto.create.topics.enable": "false", "replica.high.watermark.checkpoint.interval.ms": "1000",
    "group.consumer.session.timeout.ms": "2000", "group.consumer.min.session.timeout.ms": "2000",
    "group.consumer.heartbeat.interval.ms": "400", "group.consumer.min.heartbeat.interval.ms": "400",
    "log.scrub.io.max.bytes.per.second": "0",  # no bits rot in these worlds
}  # fmt: skip


SESSION_SLOTS = ("2", "1000", "1")
"""Of fetch sessions: a broker that keeps enough, and two where followers and readers push each other out or get none."""
SESSIONS_LAST_US = (300 * MS, 8_000 * MS)


class SimJobs:
    """Work of the other thread, done when the world says so."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def submit(
        self, run: Callable[[], object], done: Callable[[BaseException | None], None], *, urgent: bool = False
    ) -> None:
        def finish() -> None:
            error: BaseException | None = None
            try:
                run()
            except Exception as e:
                error = e
            done(error)

        self._node.post(self._node.world.between(1 * MS, (20 if urgent else 200) * MS), finish)

    def background(self, run: Callable[[], None]) -> None:
        self.submit(run, lambda error: None)

    def fileno(self) -> int:
        return -1

    def pump(self) -> None:
        pass

    def close(self) -> None:
        pass


class SimOutside:
    def __init__(self, network: Network, node: Node, disk: SimDisk, boot_id: str) -> None:
        self._network, self._node = network, node
        self.loop, self.disk, self.boot_id = node.loop, disk, boot_id
        self.jobs = SimJobs(node)

    def listen(self, host: str, port: int, on_frame: Any, **limits: int) -> SimListener:
        return SimListener(self._network, self._node, host, port, on_frame)

    def connect(
        self, host: str, port: int, *, timeout_ms: int, frame_bytes_max: int, abortive: bool = False
    ) -> SimPeer:
        return SimPeer(self._network, self._node, host, port, timeout_ms, abortive=abortive)

    descriptors_max = 1 << 10

    def lock(self, folder: Path) -> bool:
        return True

    def draw_id(self) -> str:
        return str(UUID(int=self._node.world.rng.getrandbits(128)))

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
        self.broker: Broker
        self.store: SimStore
        self._start()

    def _start(self) -> None:
        given = {
            **SETTINGS, "log.dirs": "/data", "max.incremental.fetch.session.cache.slots": SESSION_SLOTS[self.broker_id % 3],
            **self.cluster.settings, "broker.id": str(self.broker_id),
            "listeners": f"PLAINTEXT://{self.address[0]}:{self.address[1]}",
        }  # fmt: skip
        config = BrokerConfig.parse(given, BROKER_SYNONYMS.__contains__)
        outside: Any = SimOutside(self.cluster.network, self, self.disk, f"boot-{self.broker_id}-{self.boot}")

        def connect() -> SimStore:
            self.store = SimStore(self.cluster.ensemble, self, SESSION_MS)
            return self.store

        self.loop.now = self.clock()
        self.broker = Broker(config, connect, outside)
        self.broker.partitions.openings_per_turn = 1  # a topic's partitions open in different turns
        self.post(self.world.between(*SESSIONS_LAST_US), self._lose_sessions)

    def _lose_sessions(self) -> None:
        """As if others had pushed them out."""
        if len(self.broker.fetch_sessions):
            self.world.reached["fetch sessions lost"] += 1
            self.broker.fetch_sessions.end_all()
        self.post(self.world.between(*SESSIONS_LAST_US), self._lose_sessions)

    def kill(self) -> None:
        if self.alive:
            self.die()
            self.disk = self._disk_left()

    def _disk_left(self) -> SimDisk:
        if self.disk.sick:
            self.world.reached["failed disk"] += 1
            return self.disk.power_cut(self.world.rng)
        return self.disk.killed()

    @property
    def limps(self) -> bool:
        """It lives, but its disk fails, or has failed, or copies are offline: until it is started again."""
        offline = any(r.offline_reason for r in self.broker.partitions.hosted.values())
        return self.alive and (bool(self.disk.fail_at) or self.broker.identity.losses > 0 or offline)

    def disk_room(self, room: int) -> None:
        self.disk.bytes_max = self.disk.used() + room

    def disk_fails(self, steps: int, error: Exception) -> None:
        self.disk.fail_at[self.disk.steps + steps] = error

    def disk_whole(self) -> None:
        self.disk.bytes_max = NO_BOUND
        self.disk.fail_at.clear()

    def enter(self, event: Event) -> None:
        def turn() -> None:
            try:
                super(BrokerNode, self).enter(event)
            except DiskFailed:  # as Broker.run does
                self.broker.identity.tail_in_doubt()
                raise

        self._guarded(turn)

    def _guarded(self, event: Event) -> None:
        """What the broker itself does not answer ends its process."""
        try:
            event()
        except (DiskFull, DiskFailed, IdentityError) as e:
            at = " < ".join(
                f"{f.filename.rpartition('/')[2]}:{f.lineno}" for f in traceback.extract_tb(e.__traceback__)[-2:-9:-1]
            )
            self.world.tell(f"{self.name} ends: {e} at {at}")
            self.world.reached["broker ended by its disk"] += 1
            self.kill()

    def power_cut(self) -> None:
        if self.alive:
            self.die()
            self.boot += 1
            before, self.disk = self.disk, self.disk.power_cut(self.world.rng)
            self.world.tell(f"{self.name} lost power")
            if any(self.disk.size(p) < len(i.live) for p, i in before.names.items() if p.suffix == ".log"):
                self.world.reached["lost tail"] += 1

    def start(self) -> None:
        if not self.alive:
            self.live()
            self._guarded(self._start)

    def stop(self) -> None:
        """A controlled shutdown; the process ends when it is done."""
        self.enter(self.broker.stop)

        def ended() -> None:
            if self.broker.stopped:
                self.kill()
            else:
                self.post(20 * MS, ended)

        self.post(20 * MS, ended)


class SimDatabase:
    """One controller's door to the rows. `write` and `read` take their time."""

    def __init__(self, cluster: Cluster, node: ControllerNode) -> None:
        self._cluster, self._node = cluster, node
        self._post: Callable[[Any], None] = lambda event: None
        self._epoch = 0

    def start(self, post: Callable[[Any], None]) -> None:
        self._post = post

    def tell(self, read: DesiredRead) -> None:
        def told() -> None:
            self._post(read)
            self._node.turn()

        self._node.post(self._node.world.between(1 * MS, 30 * MS), told)

    def acting(self, controller_epoch: int) -> None:
        self._epoch = controller_epoch
        self._cluster.acting = self
        self.tell(DesiredRead(tuple(self._cluster.topics.values()), complete=True))

    def standing_by(self) -> None:
        pass

    def write(self, request: ForwardedRequest) -> None:
        raise AssertionError(f"no client of this world asks for {request.kind}")

    def applied(self, image: Image, records: Sequence[Record]) -> None:
        pass

    def report(self, report: Report) -> None:
        pass

    def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Chances:
    """Of an acting controller's probes: the share of deaths that they find, and of lives that they take for dead."""

    told: float
    wrong: float
    together: float = 0
    """The share of verdicts that wait for those on others who died at that moment; and of kills that end all brokers at one moment."""


NO_PROBES = Chances(0, 0)


class SimProbes:
    """What a controller's probes would find: a process that is gone, told a moment later. A world may also let them be wrong."""

    def __init__(self, cluster: Cluster, node: ControllerNode) -> None:
        self.dead: frozenset[tuple[int, int]] = frozenset()
        self._cluster, self._node = cluster, node
        self._watched: dict[int, int] = {}
        self._found: set[tuple[int, int]] = set()
        self._ripe: set[tuple[int, int]] = set()
        self._in_doubt: set[tuple[int, int]] = set()

    def fileno(self) -> int:
        raise AssertionError("nobody polls in a simulation")

    def watch(self, registrations: Mapping[int, Registration]) -> None:
        seats = {(i, r.incarnation) for i, r in registrations.items()}
        self.dead &= seats
        self._found &= seats
        self._ripe &= seats
        self._in_doubt &= seats
        for broker_id, incarnation in seats:
            if self._watched.get(broker_id) == incarnation:
                continue
            rng, node = self._cluster.probes_rng, self._cluster.brokers[broker_id]
            if rng.random() < self._cluster.probes.wrong:
                self._later(200, 6_000, (broker_id, incarnation))
            if node.alive and rng.random() < self._cluster.probes.told:
                node.on_death.append(lambda seat=(broker_id, incarnation): self._dies(seat))  # type: ignore[misc]
        self._watched = dict(seats)

    def _dies(self, seat: tuple[int, int]) -> None:
        if self._watched.get(seat[0]) == seat[1]:
            self._in_doubt.add(seat)
            self._later(1, 200, seat)

    def _later(self, low_ms: int, high_ms: int, seat: tuple[int, int]) -> None:
        def found() -> None:
            if self._watched.get(seat[0]) == seat[1]:
                self._ripe.add(seat)
                self._in_doubt.discard(seat)
                if not self._in_doubt or self._cluster.probes_rng.random() >= self._cluster.probes.together:
                    if len(self._ripe) > 1:
                        self._cluster.world.reached["deaths told together"] += 1
                    self._found |= self._ripe
                    self._ripe.clear()
                node, world = self._cluster.brokers[seat[0]], self._cluster.world
                wrong = node.alive and node.broker.membership.incarnation == seat[1]
                world.reached["living broker taken for dead" if wrong else "death told by a probe"] += 1

        self._node.post(self._cluster.probes_rng.randint(low_ms, high_ms) * MS, found)

    def turn(self, now: Now) -> bool:
        if self._found <= self.dead:
            return False
        self.dead |= self._found
        return True

    def close(self) -> None:
        pass


class ControllerNode(Node):
    def __init__(self, cluster: Cluster, number: int) -> None:
        super().__init__(cluster.world, f"controller-{number}")
        self.cluster = cluster
        self.controller: Controller
        self.store: SimStore
        self._start()

    def _start(self) -> None:
        self.store = SimStore(self.cluster.ensemble, self, SESSION_MS, wake=self.turn)
        self.database = SimDatabase(self.cluster, self)
        self.probes = SimProbes(self.cluster, self)
        rng = self.world.rng
        self.controller = Controller(
            self.store, self.name, self.database, clock=self.clock, draw=lambda: f"{rng.getrandbits(128):032x}",
            snapshot_log_bytes=self.cluster.snapshot_log_bytes, records_per_entry=self.cluster.records_per_entry,
            probes=self.probes,
        )  # fmt: skip
        self._tick()

    def _tick(self) -> None:
        self.turn()
        self.post(TICK_MS * MS, self._tick, timer=True)

    def turn(self) -> None:
        self.controller.turn()

    @property
    def acts(self) -> bool:
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
        probes: Chances = NO_PROBES,
    ) -> None:
        self.probes = probes
        # Chances of their own: a world without them is what it was before there were any.
        self.probes_rng = Random(world.seed)
        self.world, self.snapshot_log_bytes, self.records_per_entry = world, snapshot_log_bytes, records_per_entry
        self.settings = settings or {}
        self.ensemble = Ensemble(world, store_lag_ms)
        self.network = Network(world)
        self.topics: dict[str, DesiredTopic] = {}
        self.acting: SimDatabase | None = None
        self.archive: Archive | None = None
        """In worlds whose logs are cut: all that was ever committed."""
        self.brokers = {i: BrokerNode(self, i) for i in range(1, brokers + 1)}
        self.controllers = [ControllerNode(self, i) for i in range(1, controllers + 1)]

    # -- what an operator asks ---------------------------------------------------------------------------------------------
    def want_topic(self, name: str, partitions: int, replicas: int, **configs: str) -> UUID:
        topic_id = UUID(int=self.world.rng.getrandbits(128))
        dotted = {k.replace("_", "."): v for k, v in configs.items()}
        self.topics[name] = DesiredTopic(topic_id, name, 1, False, partitions, replicas, dotted)
        if self.acting is not None:
            self.acting.tell(DesiredRead((self.topics[name],)))
        return topic_id

    def want(self, *rows: DesiredAssignment | DesiredReset) -> None:
        assert self.acting is not None
        self.acting.tell(
            DesiredRead(
                assignments=tuple(r for r in rows if isinstance(r, DesiredAssignment)),
                resets=tuple(r for r in rows if isinstance(r, DesiredReset)),
            )
        )

    # -- what can be seen --------------------------------------------------------------------------------------------------
    @property
    def image(self) -> Image:
        """The newest image that anybody has."""
        images = [c.controller.tailer.image for c in self.controllers] + [
            b.broker.membership.image for b in self.brokers.values()
        ]
        return max(images, key=lambda i: i.seq)

    def settled(self) -> bool:
        """Everybody is alive and in step: every partition led, every replica in its ISR, every broker at the log's head."""
        image = self.image
        return (
            all(b.alive and not b.frozen and b.broker.partitions.image.seq == image.seq for b in self.brokers.values())
            and len(image.live_brokers()) == len(self.brokers)
            and bool(self.topics)
            and all(image.topic_named(n) is not None for n in self.topics)
            and all(
                p.leader >= 0 and set(p.isr_ids) == set(p.replicas) and not p.reassigning and not p.observers
                for _, _, p in image.each_partition()
            )
        )

    def level(self) -> bool:
        """Settled, and every replica knows that all it holds is committed: what is acknowledged can be read from any."""
        replicas = [r for b in self.brokers.values() for r in b.broker.partitions.hosted.values()]
        counted = [r for r in replicas if r.core.role is not Role.HOLDER]
        return self.settled() and all(r.core.high_watermark == r.log.end_offset for r in counted)

    def until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        from tests.simulation.checkers import Violation

        deadline = self.world.now_us + int(seconds * 1_000_000)
        while not condition():
            if self.world.now_us >= deadline:
                raise Violation(f"waited {seconds} virtual seconds for {what}")
            self.world.run(min(deadline, self.world.now_us + 20 * MS))
