"""One seed from its beginning to its judgement: a cluster, a load, faults drawn from the seed, peace, and what must be true then.

Topics: "strict" (three replicas, min.insync 2) promises all. "pair" (two of two) promises as much and is moved about. "loose" (min.insync 1)
promises all until a machine loses power or a disk fails: the others may have left the ISR, and then even Kafka loses what one of them was
told. What a world's weather brings, its load, and how short its metadata log is are drawn from the seed.
"""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from brokerd.cluster.appender import RECORDS_PER_ENTRY
from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, TopicPartition
from brokerd.cluster.snapshots import LOG_BYTES_PER_SNAPSHOT
from brokerd.replica import Replica
from tests.simulation.checkers import History, Violation, Watch, logs_agree
from tests.simulation.clients import Producer, Reader
from tests.simulation.cluster import NO_PROBES, Chances, Cluster
from tests.simulation.consumers import Consumer, Holdings
from tests.simulation.members import Auditor, GroupHistory, Member, in_step
from tests.simulation.trouble import Trouble, Weather
from tests.simulation.world import S, World

TROUBLE_S = 25
LOG_BYTES_FEW = 1_500
"""Of log per snapshot: one every few entries, so that whoever was away for seconds finds the log cut."""
PEACE_S_MAX = 60
"""Once faults cease everything is in step again within this, or something never heals."""
PAUSES_MS = (200, 500, 1_000)
LAG_MS = 1_500
"""By which a ZooKeeper follower lags at most, where followers lag."""
AFTERMATH_S = 4
"""From the last fault of a shortened world to its peace."""
LOGS: tuple[dict[str, str], ...] = ({}, {"segment_bytes": "16384"}, {"segment_bytes": "16384", "flush_ms": "1500"})
"""One segment never flushed, several (each flushed when it is closed), and a log that is flushed all the time."""
ENTRIES = (1, 3, RECORDS_PER_ENTRY)
"""Records per entry of the metadata log: what is decided at once takes many entries, as it does with thousands of partitions, or one."""
PROBES = (NO_PROBES, Chances(told=0.7, wrong=0.1, together=0.5))
"""In every other world the acting controller finds most dead brokers at once, and takes one life in ten for dead; and all brokers die at one moment sometimes."""
SAID = {
    "truncated from": "truncation by epoch",
    "not accepted": "refused ISR",
    "stood still for": "stood still",
    "no longer acts as controller": "controller deposed",
    "stepping down": "zombie controller",
    "an entry of another controller": "zombie controller",
    "metadata snapshot at entry": "snapshot",
    "the log no longer reaches back": "snapshot reload",
    "is rebuilt from its leader": "copy thrown away and rebuilt",
    "begun anew there": "log begun anew",
    "are to be begun anew, the leader": "a copy that starts too late",
    "the copy of its tail is begun anew": "tail begun anew",
    "torn bytes": "torn batch",
    "ZooKeeper session has expired": "session lost",
    "give up its seats": "copy lost",
    "goes over to the new protocol": "group gone over",
    "goes back to the classic protocol": "group gone back",
}
"""Words of the product's log that tell a state was reached; the rest is counted where it is seen (checkers, store, trouble)."""
HARD = (
    "truncation by epoch", "refused ISR", "unknown multi", "snapshot reload", "election from elr", "election from last_isr",
    "zombie leader", "zombie controller", "lost tail",
)  # fmt: skip
"""Each is to be reached by at least this share of the seeds."""
HARD_SHARE = 1 / 40


@dataclass
class Outcome:
    seed: int
    fingerprint: str
    violation: str | None
    reached: Counter[str]
    acks: int
    events: int
    faults: int
    story: list[str] = field(default_factory=list)


class Ear(logging.Handler):
    """The product's own log lines belong to the story."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.INFO)
        self.world = world

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        self.world.tell(f"  {self.world.current}: {line}")
        for words, state in SAID.items():
            if words in line:
                self.world.reached[state] += 1
        if record.exc_info:
            raise Violation(f"an exception in the product: {line}: {record.exc_info[1]!r}")


Live = Callable[[World, History, float, int | None], None]


def run(seed: int, *, trouble_s: float = TROUBLE_S, faults_max: int | None = None, life: Live | None = None) -> Outcome:
    """`faults_max`: peace begins a little after that many faults, with everything up to there as without it. `life`: another world
    than the ordinary one."""
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
        (life or live)(world, history, trouble_s, faults_max)
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
    return Outcome(
        seed, world.fingerprint, violation, world.reached, history.acks, world.events, world.faults, list(world.story)
    )


def live(world: World, history: History, trouble_s: float, faults_max: int | None) -> None:
    weather = Weather.draw(world)
    pause_ms = world.rng.choice(PAUSES_MS)
    log_bytes, records = world.rng.choice((LOG_BYTES_FEW, LOG_BYTES_PER_SNAPSHOT)), world.rng.choice(ENTRIES)
    world.tell(f"weather: {weather}; producers pause for up to {pause_ms} ms")
    world.tell(f"{log_bytes} bytes of metadata log per snapshot, {records} records per entry")
    cluster = Cluster(
        world, snapshot_log_bytes=log_bytes, store_lag_ms=LAG_MS if weather.stale else 0, records_per_entry=records,
        probes=PROBES[world.seed % 2],
    )  # fmt: skip
    Watch(cluster)
    cluster.want_topic("strict", 2, 3, min_insync_replicas="2", **world.rng.choice(LOGS))
    cluster.want_topic("pair", 1, 2, min_insync_replicas="2", **world.rng.choice(LOGS))
    cluster.want_topic("loose", 1, 3, min_insync_replicas="1", **world.rng.choice(LOGS))
    if weather.groups:
        cluster.want_topic(GROUP_OFFSETS_TOPIC, 1, 3, min_insync_replicas="2", cleanup_policy="compact")
    cluster.until(cluster.settled, 30, "the cluster's beginning")
    places = [("strict", 0), ("strict", 1), ("pair", 0), ("loose", 0)]
    producers = [
        Producer(cluster, history, f"p{i}{n}", t, p, pause_ms) for i, (t, p) in enumerate(places) for n in "ab"
    ]
    readers = [Reader(cluster, history, f"r{i}", t, p, careful=i != 1) for i, (t, p) in enumerate(places)]
    groups: GroupHistory = Holdings() if world.seed % 2 else GroupHistory()
    kind = partial(Consumer, cluster, groups) if isinstance(groups, Holdings) else partial(Member, cluster, groups)
    members = [kind(f"m{n}", places) for n in "abc"] if weather.groups else []
    world.run(world.now_us + 1 * S)
    trouble = Trouble(cluster, history, weather, faults_max)
    world.run(world.now_us + int(trouble_s * S), lambda: trouble.exhausted)
    if trouble.exhausted:
        world.run(world.now_us + AFTERMATH_S * S)
    trouble.peace()
    cluster.until(cluster.settled, PEACE_S_MAX, "everything in step after the last fault")
    if members:
        for member in members:
            member.calm = True
        cluster.until(lambda: in_step(members), 30, "the group in one generation")
        for member in members:
            member.stopped = True
        world.run(world.now_us + 4 * S)  # what is under way is answered, or never will be
        auditor = Auditor(cluster, places)
        cluster.until(lambda: auditor.committed is not None, 20, "the committed offsets")
        groups.judge(auditor.committed or {})
        world.reached["group generations"] += groups.newest
        history.acks += groups.acks
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
