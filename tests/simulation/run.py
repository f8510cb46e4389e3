"""One seed from its beginning to its judgement: a cluster, a load, faults drawn from the seed, peace, and what must be true then."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field

from brokerd.cluster.model import TopicPartition
from tests.simulation.checkers import History, Violation, Watch, logs_agree
from tests.simulation.clients import Producer, Reader
from tests.simulation.cluster import BrokerNode, Cluster, ControllerNode
from tests.simulation.world import MS, S, World

TROUBLE_S = 25
PEACE_S_MAX = 60
"""Once faults cease everything is in step again within this, or something never heals."""
SAID = {
    "truncated from": "truncation by epoch",
    "not accepted": "refused ISR",
    "stood still for": "zombie leader",
    "no longer acts as controller": "controller deposed",
    "begun anew there": "log begun anew",
    "torn bytes": "lost tail",
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

    def __init__(self, cluster: Cluster, history: History) -> None:
        self.cluster, self.world, self.history = cluster, cluster.world, history
        self.over = False
        self.world.after(self._pause(), self._next)

    def _pause(self) -> int:
        return self.world.between(300 * MS, 4 * S)

    def _next(self) -> None:
        if self.over:
            return
        rng = self.world.rng
        fault = rng.choice(
            (self._kill, self._kill, self._freeze, self._freeze, self._cut_store, self._split, self._controller, self._freeze_controller,
             self._ensemble, self._power, self._stop, self._expire)
        )  # fmt: skip
        fault()
        self.world.after(self._pause(), self._next)

    def _later(self, low_s: float, high_s: float, heal: object) -> None:
        self.world.after(self.world.between(int(low_s * S), int(high_s * S)), lambda: None if self.over else heal())  # type: ignore[operator]

    def _broker(self) -> BrokerNode:
        return self.world.rng.choice(list(self.cluster.brokers.values()))

    def _controller_node(self) -> ControllerNode:
        acting = [c for c in self.cluster.controllers if c.acts]
        return self.world.rng.choice(acting or self.cluster.controllers)

    def _kill(self) -> None:
        node = self._broker()
        node.kill()
        self._later(0.05, 8, node.start)

    def _power(self) -> None:
        """Only what one machine held in memory may be lost at a time: replication promises no more."""
        if self.cluster.settled():
            node = self._broker()
            node.power_cut()
            self.history.unpromised.add("loose")
            self._later(0.05, 6, node.start)

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
        store = self._broker().store
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
    except (Violation, RuntimeError) as e:
        violation = str(e)
        world.tell(f"VIOLATION {e}")
    finally:
        for lg, (level, propagate) in zip(loggers, before, strict=True):
            lg.removeHandler(ear)
            lg.setLevel(level)
            lg.propagate = propagate
    return Outcome(seed, world.fingerprint, violation, world.reached, history.acks, world.events, list(world.story))


def live(world: World, history: History, trouble_s: float) -> None:
    cluster = Cluster(world)
    Watch(cluster)
    cluster.want_topic("strict", 2, 3, min_insync_replicas="2")
    cluster.want_topic("loose", 1, 3, min_insync_replicas="1")
    cluster.until(cluster.settled, 30, "the cluster's beginning")
    places = [("strict", 0), ("strict", 1), ("loose", 0)]
    producers = [Producer(cluster, history, f"p{i}{n}", t, p) for i, (t, p) in enumerate(places) for n in "ab"]
    readers = [Reader(cluster, history, f"r{i}", t, p) for i, (t, p) in enumerate(places)]
    world.run(world.now_us + 1 * S)
    trouble = Trouble(cluster, history)
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
        reader.stopped = True
    logs_agree(cluster)
    history.judge(cluster)
