"""The faults of a world: drawn from the seed, one after another and overlapping. `stop_faults` ends them all.

Invariant: a world with guarantees has no faults beyond those that replication tolerates: the memory or the replicas of one machine may be lost at a
time (`_may_lose`). Does not contain the checks (checkers).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from brokerd.cluster.znodes import CONTROLLER
from brokerd.storage.disk import DiskFailed
from controlplane.controller.events import DesiredAssignment, DesiredReset
from tests.simulation.byid import key_of
from tests.simulation.checkers import History
from tests.simulation.cluster import BrokerNode, Cluster, ControllerNode
from tests.simulation.world import MS, S, World

NOTHING_PROMISED = ("loose", "brittle")
"""Topics with min.insync.replicas=1: one machine may have the only replica of a record."""
AGAIN, KEYED = "again", "keyed"
"""The topic that is deleted and created again; the topic that is sometimes compacted."""
CHANGES: dict[str, tuple[dict[str, str], ...]] = {
    "strict": (
        {"min_insync_replicas": "3"},
        {"min_insync_replicas": "2"},
        {"segment_bytes": "8192"},
        {"flush_ms": "800"},
        {"index_interval_bytes": "256"},
    ),
    "pair": ({"segment_bytes": "4096"}, {"segment_bytes": "1048576"}, {"flush_messages": "20"}),
    "loose": ({"segment_bytes": "4096"}, {"min_insync_replicas": "2"}, {"min_insync_replicas": "1"}),
    KEYED: (
        {"cleanup_policy": "compact"},
        {"cleanup_policy": "compact"},
        {"cleanup_policy": "delete"},
        {"cleanup_policy": "compact,delete"},
        {"segment_bytes": "2048"},
        {"segment_bytes": "65536"},
        {"min_cleanable_dirty_ratio": "0.05"},
    ),
}
"""Configs that operators change during the run, by topic."""
PAUSE_MS = (300, 4_000)
AFTERMATH_S = 4
"""Time from the last fault of a shortened world to the end of its faults."""


@dataclass(frozen=True, slots=True)
class FaultKinds:
    """The kinds of faults of a world besides the common ones, drawn from its seed."""

    power: bool
    """Machines lose power, or the last ISR member does."""
    disks: bool
    """Disks are full for a while, or fail."""
    slow: bool
    """For a while each flush takes seconds."""
    stale: bool
    """ZooKeeper followers lag: a session reads older states until it syncs."""
    groups: bool
    """A consumer group runs in addition."""
    changes: bool
    """Operators change topic configs, and delete a topic and create it again under its name."""
    unclean: bool
    """One topic allows unclean elections."""
    racks: bool
    """Brokers are in two racks, and some consumers read from the closest replica."""

    @classmethod
    def draw(cls, world: World, *, wide: bool = False) -> FaultKinds:
        """`wide`: for a world with topics and clients for changes, unclean elections and racks."""
        return cls(
            power=world.chance(0.5),
            disks=world.chance(0.3),
            slow=world.chance(0.3),
            stale=world.chance(0.4),
            groups=world.chance(0.4),
            changes=wide and world.chance(0.5),
            unclean=wide and world.chance(0.3),
            racks=wide and world.chance(0.4),
        )

    def __str__(self) -> str:
        return ", ".join(f.name for f in fields(self) if getattr(self, f.name)) or "fair"


class FaultInjector:
    """`faults_max` ends the faults early: with the same seed everything is the same up to that fault."""

    def __init__(
        self, cluster: Cluster, history: History, fault_kinds: FaultKinds, faults_max: int | None = None
    ) -> None:
        self.cluster, self.world, self.history = cluster, cluster.world, history
        self.over = False
        self._faults_max = faults_max
        self._losing: BrokerNode | None = None
        self._losing_until_us = 0
        self._orders = 0
        common = [
            self._kill,
            self._kill,
            self._freeze,
            self._freeze,
            self._cut_store,
            self._split,
            self._controller,
            self._freeze_controller,
            self._ensemble,
            self._stop,
            self._expire,
            self._unseat,
            self._move,
            self._reset,
            self._wall_clock,
            self._blip,
            self._blip,
        ]
        power = [self._power, self._power, self._power, self._last_one] if fault_kinds.power else []
        disks = [self._disk_full, self._disk_full, self._disk_fails, self._disk_fails] if fault_kinds.disks else []
        slow = [self._disk_slow, self._disk_slow] if fault_kinds.slow else []
        changes = [self._change, self._change, self._create_again] if fault_kinds.changes else []
        self._kinds = [*common, *power, *disks, *slow, *changes]
        self.world.after(self._pause(), self._next)

    def _pause(self) -> int:
        return self.world.between(PAUSE_MS[0] * MS, PAUSE_MS[1] * MS)

    @property
    def is_exhausted(self) -> bool:
        return self._faults_max is not None and self.world.faults >= self._faults_max

    def _next(self) -> None:
        if self.over or self.is_exhausted:
            return
        self.world.faults += 1
        self.world.rng.choice(self._kinds)()
        self.world.after(self._pause(), self._next)

    def _call_later(self, low_s: float, high_s: float, heal: Callable[[], object]) -> None:
        self.world.after(
            self.world.between(int(low_s * S), int(high_s * S)), lambda: None if self.over else (heal(), None)[1]
        )

    def _broker(self) -> BrokerNode:
        return self.world.rng.choice(list(self.cluster.brokers.values()))

    def _random_node(self) -> BrokerNode | ControllerNode:
        return self.world.rng.choice([*self.cluster.brokers.values(), self._controller_node()])

    def _controller_node(self) -> ControllerNode:
        acting = [c for c in self.cluster.controllers if c.is_acting]
        return self.world.rng.choice(acting or self.cluster.controllers)

    # -- processes -----------------------------------------------------------------------------------------------------
    def _kill(self) -> None:
        together = self.cluster.probes_rng.random() < self.cluster.probes.together
        for node in [*self.cluster.brokers.values()] if together else [self._broker()]:
            node.kill()
            self._call_later(0.05, 8, node.start)

    def _stop(self) -> None:
        node = self._broker()
        if node.alive and not node.frozen and not node.broker.stopping:
            self.world.deliver(f"{node.name} is asked to stop")
            node.stop()
            self._call_later(4, 9, node.start)

    def _freeze(self) -> None:
        node = self._broker()
        node.freeze()
        self._call_later(0.1, 9, node.resume)

    def _controller(self) -> None:
        node = self._controller_node()
        if node.alive:
            node.crash()
        self._call_later(0.1, 6, node.start)

    def _freeze_controller(self) -> None:
        node = self._controller_node()
        node.freeze()
        self._call_later(0.5, 9, node.resume)

    def _wall_clock(self) -> None:
        node = self._broker()
        node.wall_skew_ms = self.world.between(-3_600_000, 3_600_000)
        self.world.deliver(f"the wall clock of {node.name} jumps to {node.wall_skew_ms} ms beside the others")

    # -- machines and disks --------------------------------------------------------------------------------------------
    def _may_lose(self) -> bool:
        """Only one machine's data may be lost at a time: replication guarantees no more."""
        image = self.cluster.image
        states = [(t.name, s) for t, _, s in image.each_partition()]
        if self._losing is not None:
            isr_member = self._losing.broker.membership.broker_epoch
            held = [s for _, s in states if self._losing.broker_id in s.replicas]
            if (
                self.world.now_us < self._losing_until_us
                or not self._losing.alive  # its earlier incarnation may still be in the metadata log
                or self._losing.is_degraded
                or not all((self._losing.broker_id, isr_member) in s.isr for s in held)
            ):
                return False
            self._losing = None
        return all(len({*s.isr_ids, *s.elr}) >= 2 for name, s in states if name not in NOTHING_PROMISED)

    def _lose(self, node: BrokerNode) -> None:
        self._losing, self._losing_until_us = node, self.world.now_us + 5 * S

    def _power(self) -> None:
        if self._may_lose():
            self._power_cut(self._broker())

    def _power_cut(self, node: BrokerNode) -> None:
        self._lose(node)
        self.history.unpromised.update(NOTHING_PROMISED)
        node.power_cut()
        self._call_later(0.05, 6, node.start)

    def _last_one(self) -> None:
        """All others are stopped until one is left in the ISR of "loose", which then loses power."""
        topic = self.cluster.image.topic_named("loose")
        if topic is None:
            return
        last = self.cluster.brokers.get(topic.partitions[0].leader)
        if last is None or not self._may_lose():
            return
        for node in self.cluster.brokers.values():
            if node is not last:
                node.kill()
                self._call_later(5, 9, node.start)
        until_us = self.world.now_us + 5 * S

        def check_and_continue() -> None:
            topic = self.cluster.image.topic_named("loose")
            if self.over or self.world.now_us > until_us or topic is None:
                return
            if topic.partitions[0].isr_ids == (last.broker_id,) and last.alive and self._may_lose():
                self._power_cut(last)
            else:
                self.world.after(50 * MS, check_and_continue)

        check_and_continue()

    def _disk_full(self) -> None:
        node = self._broker()
        room = self.world.between(0, 20_000)
        self.world.deliver(f"the disk of {node.name} has {room} bytes left")
        node.disk_room(room)
        self._call_later(0.2, 6, node.disk_whole)

    def _disk_slow(self) -> None:
        node = self._broker()
        self.world.deliver(f"the disk of {node.name} is slow")
        node.slow_until_us = self.world.now_us + self.world.between(1 * S, 8 * S)

    def _disk_fails(self) -> None:
        """One I/O error in one of the broker's next operations; it is restarted some time later."""
        node = self._broker()
        if self._may_lose() and node.alive:
            self._lose(node)
            self.history.unpromised.update(NOTHING_PROMISED)
            self.world.deliver(f"the disk of {node.name} is going to fail")
            node.disk_fails(self.world.between(1, 60), DiskFailed("Input/output error"))
            self._call_later(2, 8, lambda: self._replace_node(node))

    def _replace_node(self, node: BrokerNode) -> None:
        node.disk_whole()
        if node.is_degraded:
            node.kill()
        node.start()

    # -- connections ---------------------------------------------------------------------------------------------------
    def _split(self) -> None:
        one, other = self._broker().name, self._broker().name
        if one != other:
            pairs = {(one, other)} if self.world.chance(0.3) else {(one, other), (other, one)}
            self.world.deliver(f"split: {sorted(pairs)}")
            self.cluster.network.cut |= pairs
            self._call_later(0.2, 8, lambda: self.cluster.network.cut.difference_update(pairs))

    def _cut_store(self) -> None:
        store = self._random_node().store
        store.cut()
        self._call_later(0.1, 9, store.heal)

    def _expire(self) -> None:
        numbers = list(self.cluster.ensemble.sessions)
        if numbers:
            self.cluster.ensemble.expire(self.world.rng.choice(numbers))

    def _ensemble(self) -> None:
        if self.cluster.ensemble.up:
            self.cluster.ensemble.go_down()
            self._call_later(0.1, 5, self.cluster.ensemble.come_up)

    def _blip(self) -> None:
        """A connection is lost while a controller's write is in flight: its result is unknown. The session stays open."""
        self._move()  # causes a write
        node = self._controller_node()
        until_us = self.world.now_us + 5 * S

        def lose() -> None:
            if node.store.multis and node.store.linked and self.cluster.ensemble.up:
                self.world.deliver(f"{node.name} loses its connection in the middle of a write")
                node.store.lose()
                node.store.reconnect()

        def check_and_continue() -> None:
            if self.over or not node.alive:
                return
            if node.store.multis:
                self.world.after(self.world.between(0, 3 * MS), lose)
            elif self.world.now_us < until_us:
                self.world.after(300, check_and_continue)

        check_and_continue()

    # -- operators -----------------------------------------------------------------------------------------------------
    def _reset(self) -> None:
        """An operator resets one replica, which is fetched again."""
        if self._may_lose() and self.cluster.acting is not None:
            topic, index, state = self.world.rng.choice(list(self.cluster.image.each_partition()))
            node = self.cluster.brokers[self.world.rng.choice(state.replicas)]
            self._lose(node)
            self._orders += 1
            self.world.deliver(f"an operator resets {topic.name}-{index} on {node.name}")
            self.cluster.deliver_desired(DesiredReset(topic.topic_id, index, node.broker_id, f"reset-{self._orders}"))

    def _move(self) -> None:
        """An operator reassigns a partition, or changes the order of its replicas."""
        if self.cluster.acting is not None:
            topic, index, state = self.world.rng.choice(list(self.cluster.image.each_partition()))
            replicas = tuple(self.world.rng.sample(sorted(self.cluster.brokers), len(state.target)))
            self._orders += 1
            self.world.deliver(f"an operator moves {topic.name}-{index} to {replicas}")
            self.cluster.deliver_desired(
                DesiredAssignment(topic.topic_id, index, replicas, state.assignment_generation, f"move-{self._orders}")
            )

    def _change(self) -> None:
        """An operator changes a config of a topic."""
        names = [n for n in self.cluster.topics if n in CHANGES]
        if names:
            name = self.world.rng.choice(names)
            configs = self.world.rng.choice(CHANGES[name])
            self.world.deliver(f"an operator changes {name}: {configs}")
            self.world.reached["config changed"] += 1
            self.cluster.change_topic(name, **configs)

    def _create_again(self) -> None:
        """A topic is deleted. At once, or a while later, another topic of the same name is created."""
        if AGAIN in self.cluster.topics:
            self.world.deliver(f"an operator deletes {AGAIN}")
            self.cluster.delete_topic(AGAIN)
            self.world.after(self.world.between(0, 3 * S), self.create_again)

    def create_again(self) -> None:
        if AGAIN not in self.cluster.topics:
            topic_id = self.cluster.want_topic(AGAIN, 1, 3, min_insync_replicas="2")
            self.history.named_by_id.add(key_of(topic_id))
            self.world.reached["topic created again"] += 1

    def _unseat(self) -> None:
        """The old way to force a controller election; the active controller and its session stay alive."""
        if self.cluster.ensemble.up:
            self.cluster.ensemble.remove(CONTROLLER)

    def run(self, faults_s: float) -> None:
        """Run the world for this time, or until a little after the last fault of a shortened world. Then end the faults."""
        self.world.run(self.world.now_us + int(faults_s * S), lambda: self.is_exhausted)
        if self.is_exhausted:
            self.world.run(self.world.now_us + AFTERMATH_S * S)
        self.stop_faults()

    # -- the end -------------------------------------------------------------------------------------------------------
    def stop_faults(self) -> None:
        self.over = True
        self.world.deliver("faults end")
        cluster = self.cluster
        if cluster.deleted:
            self.create_again()
        cluster.network.cut.clear()
        if not cluster.ensemble.up:
            cluster.ensemble.come_up()
        for node in [*cluster.brokers.values(), *cluster.controllers]:
            node.resume()
            if isinstance(node, BrokerNode):
                node.disk_whole()
                node.slow_until_us = 0
                if node.is_degraded:
                    node.kill()
            node.start()
            node.store.heal()
        for broker in cluster.brokers.values():
            if broker.broker.stopping and broker.alive:
                broker.kill()
                broker.start()
