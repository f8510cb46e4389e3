"""One seed from its beginning to its judgement: a cluster, a load, faults drawn from the seed, peace, and what must be true then.

Topics: "strict" (three replicas, min.insync 2) promises all. "pair" (two of two) promises as much and is moved about. "loose" (min.insync 1)
promises all until a machine loses power: the others may have left the ISR, and then even Kafka loses what one of them was told. In half
of the worlds none does.
"""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from dataclasses import dataclass, field

from brokerd.cluster.appender import RECORDS_PER_ENTRY
from brokerd.cluster.model import TopicPartition
from brokerd.cluster.snapshots import LOG_BYTES_PER_SNAPSHOT
from brokerd.cluster.znodes import CONTROLLER
from brokerd.partitions import Replica
from controlplane.controller.events import DesiredAssignment, DesiredReset
from tests.simulation.checkers import History, Violation, Watch, logs_agree
from tests.simulation.clients import Producer, Reader
from tests.simulation.cluster import BrokerNode, Cluster, ControllerNode
from tests.simulation.world import MS, S, World

TROUBLE_S = 25
LOG_BYTES_FEW = 1_500
"""Of log per snapshot: one every few entries, so that whoever was away for seconds finds the log cut."""
PEACE_S_MAX = 60
"""Once faults cease everything is in step again within this, or something never heals."""
LOGS: tuple[dict[str, str], ...] = ({}, {"segment_bytes": "16384"}, {"segment_bytes": "16384", "flush_ms": "1500"})
"""One segment never flushed, several (each flushed when it is closed), and a log that is flushed all the time."""
ENTRIES = (1, 3, RECORDS_PER_ENTRY)
"""Records per entry of the metadata log: what is decided at once takes many entries, as it does with thousands of partitions, or one."""
SAID = {
    "truncated from": "truncation by epoch",
    "not accepted": "refused ISR",
    "stood still for": "zombie leader",
    "no longer acts as controller": "controller deposed",
    "stepping down": "zombie controller",
    "an entry of another controller": "zombie controller",
    "metadata snapshot at entry": "snapshot",
    "the log no longer reaches back": "snapshot reload",
    "is rebuilt from its leader": "copy thrown away and rebuilt",
    "begun anew there": "log begun anew",
    "torn bytes": "torn batch",
    "ZooKeeper session has expired": "session lost",
    "give up its seats": "copy lost",
}
"""Words of the product's log that tell a hard state was reached."""


@dataclass
class Outcome:
    seed: int
    fingerprint: str
    violation: str | None
    reached: Counter[str]
    acks: int
    events: int
    story: list[str] = field(default_factory=list)


class Ear(logging.Handler):
    """The product's own log lines belong to the story."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.INFO)
        self.world = world

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        self.world.tell(f"  {record.name.rpartition('.')[2]}: {line}")
        for words, state in SAID.items():
            if words in line:
                self.world.reached[state] += 1
        if record.exc_info:
            raise Violation(f"an exception in the product: {line}: {record.exc_info[1]!r}")


class Trouble:
    """Faults, one after another and on top of each other, as the seed has it. Every one ends by `peace`."""

    def __init__(self, cluster: Cluster, history: History, *, power: bool) -> None:
        self.cluster, self.world, self.history, self.power = cluster, cluster.world, history, power
        self.over = False
        self._losing: BrokerNode | None = None
        self._losing_until_us = 0
        self._orders = 0
        self.world.after(self._pause(), self._next)

    def _pause(self) -> int:
        return self.world.between(300 * MS, 4 * S)

    def _next(self) -> None:
        if self.over:
            return
        rng = self.world.rng
        fault = rng.choice(
            (self._kill, self._kill, self._freeze, self._freeze, self._cut_store, self._split, self._controller, self._freeze_controller,
             self._ensemble, self._power, self._power, self._stop, self._expire, self._unseat, self._move, self._reset, self._wall_clock,
             self._blip)
        )  # fmt: skip
        fault()
        self.world.after(self._pause(), self._next)

    def _later(self, low_s: float, high_s: float, heal: object) -> None:
        self.world.after(self.world.between(int(low_s * S), int(high_s * S)), lambda: None if self.over else heal())  # type: ignore[operator]

    def _broker(self) -> BrokerNode:
        return self.world.rng.choice(list(self.cluster.brokers.values()))

    def _anybody(self) -> BrokerNode | ControllerNode:
        return self.world.rng.choice([*self.cluster.brokers.values(), self._controller_node()])

    def _blip(self) -> None:
        """A connection lost while a controller writes, or any: nobody knows whether it was written. The session lives on."""
        self._move()  # so that there is something to write
        node = self._controller_node()
        until_us = self.world.now_us + 5 * S

        def look() -> None:
            if self.over or not node.alive:
                return
            appender = node.controller.appender
            if appender is not None and not appender.idle and self.cluster.ensemble.up and node.store.linked:
                self.world.tell(f"{node.name} loses its connection in the middle of a write")
                node.store.lose()
                node.store.reconnect()
            elif self.world.now_us < until_us:
                self.world.after(300, look)

        look()

    def _controller_node(self) -> ControllerNode:
        acting = [c for c in self.cluster.controllers if c.acts]
        return self.world.rng.choice(acting or self.cluster.controllers)

    def _kill(self) -> None:
        node = self._broker()
        node.kill()
        self._later(0.05, 8, node.start)

    def _may_lose(self) -> bool:
        """Only what one machine held may be lost at a time: replication promises no more."""
        image = self.cluster.image
        states = [(t.name, s) for t, _, s in image.each_partition()]
        if self._losing is not None:
            seat = self._losing.broker.membership.incarnation
            held = [s for _, s in states if self._losing.broker_id in s.replicas]
            if self.world.now_us < self._losing_until_us or not all(
                (self._losing.broker_id, seat) in s.isr for s in held
            ):
                return False
            self._losing = None
        return all(len({*s.isr_ids, *s.elr}) >= 2 for name, s in states if name != "loose")

    def _lose(self, node: BrokerNode) -> None:
        self._losing, self._losing_until_us = node, self.world.now_us + 5 * S

    def _power(self) -> None:
        if self.power and self._may_lose():
            node = self._broker()
            self._lose(node)
            self.history.unpromised.add("loose")
            node.power_cut()
            self._later(0.05, 6, node.start)

    def _reset(self) -> None:
        """An operator has one copy thrown away and fetched anew."""
        if self._may_lose() and self.cluster.acting is not None:
            topic, index, state = self.world.rng.choice(list(self.cluster.image.each_partition()))
            node = self.cluster.brokers[self.world.rng.choice(state.replicas)]
            self._lose(node)
            self._orders += 1
            self.world.tell(f"an operator resets {topic.name}-{index} on {node.name}")
            self.cluster.want(DesiredReset(topic.topic_id, index, node.broker_id, f"reset-{self._orders}"))

    def _move(self) -> None:
        """An operator wants a partition elsewhere, or its replicas in another order."""
        if self.cluster.acting is not None:
            topic, index, state = self.world.rng.choice(list(self.cluster.image.each_partition()))
            replicas = tuple(self.world.rng.sample(sorted(self.cluster.brokers), len(state.target)))
            self._orders += 1
            self.world.tell(f"an operator moves {topic.name}-{index} to {replicas}")
            self.cluster.want(
                DesiredAssignment(topic.topic_id, index, replicas, state.assignment_generation, f"move-{self._orders}")
            )

    def _unseat(self) -> None:
        """The old way to have a controller elected anew; the one that acted lives on, session and all."""
        if self.cluster.ensemble.up:
            self.cluster.ensemble.remove(CONTROLLER)

    def _wall_clock(self) -> None:
        node = self._broker()
        node.wall_skew_ms = self.world.between(-3_600_000, 3_600_000)
        self.world.tell(f"the wall clock of {node.name} jumps to {node.wall_skew_ms} ms beside the others")

    def _stop(self) -> None:
        node = self._broker()
        if node.alive and not node.frozen and not node.broker.stopping:
            self.world.tell(f"{node.name} is asked to stop")
            node.stop()
            self._later(4, 9, node.start)

    def _freeze(self) -> None:
        node = self._broker()
        node.freeze()
        self._later(0.1, 9, node.thaw)

    def _cut_store(self) -> None:
        store = self._anybody().store
        store.cut()
        self._later(0.1, 9, store.heal)

    def _expire(self) -> None:
        numbers = list(self.cluster.ensemble.sessions)
        if numbers:
            self.cluster.ensemble.expire(self.world.rng.choice(numbers))

    def _split(self) -> None:
        one, other = self._broker().name, self._broker().name
        if one != other:
            pairs = {(one, other)} if self.world.chance(0.3) else {(one, other), (other, one)}
            self.world.tell(f"split: {sorted(pairs)}")
            self.cluster.network.cut |= pairs
            self._later(0.2, 8, lambda: self.cluster.network.cut.difference_update(pairs))

    def _controller(self) -> None:
        node = self._controller_node()
        if node.alive:
            node.die()
        self._later(0.1, 6, node.start)

    def _freeze_controller(self) -> None:
        node = self._controller_node()
        node.freeze()
        self._later(0.5, 9, node.thaw)

    def _ensemble(self) -> None:
        if self.cluster.ensemble.up:
            self.cluster.ensemble.go_down()
            self._later(0.1, 5, self.cluster.ensemble.come_up)

    def peace(self) -> None:
        self.over = True
        self.world.tell("peace")
        cluster = self.cluster
        cluster.network.cut.clear()
        if not cluster.ensemble.up:
            cluster.ensemble.come_up()
        for node in [*cluster.brokers.values(), *cluster.controllers]:
            node.thaw()
            node.start()
            node.store.heal()
        for broker in cluster.brokers.values():
            if broker.broker.stopping and broker.alive:
                broker.die()
                broker.disk = broker.disk.killed()
                broker.start()


def run(seed: int, *, trouble_s: float = TROUBLE_S) -> Outcome:
    world = World(seed)
    history = History()
    loggers = [logging.getLogger(n) for n in ("brokerd", "controlplane")]
    ear = Ear(world)
    before = [(lg.level, lg.propagate) for lg in loggers]
    for lg in loggers:
        lg.setLevel(logging.INFO)
        lg.propagate = False
        lg.addHandler(ear)
    violation: str | None = None
    try:
        live(world, history, trouble_s)
    except Violation as e:
        violation = str(e)
    except Exception as e:
        at = traceback.extract_tb(e.__traceback__)[-1]
        violation = f"{e!r} at {at.filename.rpartition('/')[2]}:{at.lineno}"
        world.story.extend(traceback.format_exc().splitlines())
    finally:
        if violation is not None:
            world.tell(f"VIOLATION {violation}")
        for lg, (level, propagate) in zip(loggers, before, strict=True):
            lg.removeHandler(ear)
            lg.setLevel(level)
            lg.propagate = propagate
    return Outcome(seed, world.fingerprint, violation, world.reached, history.acks, world.events, list(world.story))


def live(world: World, history: History, trouble_s: float) -> None:
    power = world.chance(0.5)
    cluster = Cluster(
        world, snapshot_log_bytes=world.rng.choice((LOG_BYTES_FEW, LOG_BYTES_PER_SNAPSHOT)), records_per_entry=world.rng.choice(ENTRIES)
    )  # fmt: skip
    Watch(cluster)
    cluster.want_topic("strict", 2, 3, min_insync_replicas="2", **world.rng.choice(LOGS))
    cluster.want_topic("pair", 1, 2, min_insync_replicas="2", **world.rng.choice(LOGS))
    cluster.want_topic("loose", 1, 3, min_insync_replicas="1", **world.rng.choice(LOGS))
    cluster.until(cluster.settled, 30, "the cluster's beginning")
    places = [("strict", 0), ("strict", 1), ("pair", 0), ("loose", 0)]
    producers = [Producer(cluster, history, f"p{i}{n}", t, p) for i, (t, p) in enumerate(places) for n in "ab"]
    readers = [Reader(cluster, history, f"r{i}", t, p, careful=i != 1) for i, (t, p) in enumerate(places)]
    world.run(world.now_us + 1 * S)
    trouble = Trouble(cluster, history, power=power)
    world.run(world.now_us + int(trouble_s * S))
    trouble.peace()
    cluster.until(cluster.settled, PEACE_S_MAX, "everything in step after the last fault")
    for producer in producers:
        producer.stopped = True
    cluster.until(lambda: all(p.idle for p in producers), 20, "the last acknowledgements")
    ends = lambda: all(  # noqa: E731
        len(
            {
                r.core.high_watermark
                for b in s.replicas
                if (r := cluster.brokers[b].broker.partitions.hosted.get(TopicPartition(t.topic_id, i)))
            }
        )
        == 1
        for t, i, s in cluster.image.each_partition()
    )
    cluster.until(lambda: ends() and cluster.settled(), 20, "equal high watermarks")
    for reader in readers:
        if reader.topic in history.unpromised:
            continue
        log = led(cluster, reader.topic, reader.partition)
        cluster.until(lambda r=reader, end=log.core.high_watermark: r.offset == end, 20, f"{reader.name} at the end")  # type: ignore[misc]
        if reader.careful and reader.ends_told == 0:
            raise Violation(f"{reader.name} was never told an end")
    for reader in readers:
        reader.stopped = True
    logs_agree(cluster)
    history.judge(cluster)


def led(cluster: Cluster, topic: str, index: int) -> Replica:
    """The leader's replica."""
    state = cluster.image.topic_named(topic)
    assert state is not None
    return cluster.brokers[state.partitions[index].leader].broker.partitions.hosted[
        TopicPartition(state.topic_id, index)
    ]
