"""Runs one seed: a cluster, a load, random faults, a time without faults, and the final checks.

Topics: "strict" (three replicas, min.insync.replicas=2) loses nothing. "pair" (two of two) loses nothing either and is reassigned. "loose"
(min.insync.replicas=1) loses nothing until a machine loses power or a disk fails: the others may have left the ISR, and then Kafka also loses records that
only one replica had acknowledged. The seed decides the faults, the load and the length of the metadata log.
"""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from brokerd.cluster.appender import RECORDS_PER_ENTRY
from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, TopicPartition
from brokerd.cluster.snapshots import LOG_BYTES_PER_SNAPSHOT
from brokerd.replication.replica import Replica
from tests.simulation.byid import ByIdProducer, ByIdReader, key_of
from tests.simulation.checkers import History, InvariantChecker, Violation, logs_agree
from tests.simulation.clients import Producer, Reader
from tests.simulation.cluster import COLD, Cluster
from tests.simulation.consumers import Consumer, OwnedPartitions
from tests.simulation.costs import LACKS_EPOCH, count_comparisons, decompression_jobs
from tests.simulation.fault_injector import AGAIN, KEYED, FaultInjector, FaultKinds
from tests.simulation.members import Auditor, GroupHistory, Member, in_step
from tests.simulation.pipelined import PipelinedProducer
from tests.simulation.probes import NO_PROBES, ProbeAccuracy
from tests.simulation.world import S, World

FAULTS_S = 25
LOG_BYTES_FEW = 1_500
"""Bytes of metadata log per snapshot: one snapshot every few entries, so that a process that was away for seconds finds a truncated log."""
RECOVERY_S_MAX = 60
"""After the last fault all replicas are in sync again within this time; otherwise something never recovers."""
PAUSES_MS = (200, 500, 1_000)
LAG_MS = 1_500
"""The most that a ZooKeeper follower lags, in worlds with lagging followers."""
LOGS: tuple[dict[str, str], ...] = ({}, {"segment_bytes": "16384"}, {"segment_bytes": "16384", "flush_ms": "1500"})
"""One segment that is never flushed, several (each flushed when it is closed), and a log that is flushed continuously."""
ENTRIES = (1, 3, RECORDS_PER_ENTRY)
"""Records per entry of the metadata log: decisions take many entries, as with thousands of partitions, or one."""
PROBES = (NO_PROBES, ProbeAccuracy(reported=0.7, wrong=0.1, together=0.5))
"""In every second world probes notice most deaths at once, and one live broker in ten refuses a controller for a while; sometimes all brokers die at once."""
LOG_PHRASES = {
    "replica truncated: partition=": "truncation by epoch",
    "not accepted": "rejected ISR proposal",
    "event loop stalled": "event loop stalled",
    "controller deposed": "controller deposed",
    "controller steps down": "zombie controller",
    "the log has an entry of another controller": "zombie controller",
    "metadata snapshot written": "snapshot",
    "metadata snapshot loaded": "snapshot reload",
    "replica reset: reset_id=": "replica reset",
    "log reset: reason=below-leader-log-start": "log reset",
    "reason=log-start-too-high": "log start too high",
    "observer is bootstrapped again": "observer bootstrapped again",
    "log truncated: path=": "torn batch",
    "ZooKeeper session expired": "session lost",
    "this broker leaves every ISR": "replica lost",
    "log directory move completed": "replica moved between directories",
    "group converted to the consumer protocol": "group upgraded",
    "group converted to the classic protocol": "group downgraded",
}
"""Phrases of the product's log that show that a state was reached. Other states are counted where they occur (checkers, store, fault_injector)."""
HARD = (
    "truncation by epoch",
    "rejected ISR proposal",
    "unknown multi",
    "snapshot reload",
    "election from elr",
    "election from last_isr",
    "zombie leader",
    "zombie controller",
    "lost tail",
    LACKS_EPOCH,
)
"""The least share of seeds that must reach each hard state."""
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


class StoryHandler(logging.Handler):
    """Adds the product's log lines to the story."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.INFO)
        self.world = world

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        self.world.deliver(f"  {self.world.current}: {line}")
        for words, state in LOG_PHRASES.items():
            if words in line:
                self.world.reached[state] += 1
        if record.exc_info:
            raise Violation(f"an exception in the product: {line}: {record.exc_info[1]!r}")


Live = Callable[[World, History, float, int | None], None]


def run(seed: int, *, faults_s: float = FAULTS_S, faults_max: int | None = None, life: Live | None = None) -> Outcome:
    """`faults_max`: the faults end a little after that many, with everything before as without the limit. `life`: runs another world, instead of
    `live`.
    """
    world = World(seed)
    history = History()
    loggers = [logging.getLogger(n) for n in ("brokerd", "controlplane")]
    ear = StoryHandler(world)
    before = [(lg.level, lg.propagate) for lg in loggers]
    for lg in loggers:
        lg.setLevel(logging.INFO)
        lg.propagate = False
        lg.addHandler(ear)
    violation: str | None = None
    try:
        with decompression_jobs(world), count_comparisons(world):
            (life or live)(world, history, faults_s, faults_max)
    except Violation as e:
        violation = str(e)
    except Exception as e:
        at = traceback.extract_tb(e.__traceback__)[-1]
        violation = f"{e!r} at {at.filename.rpartition('/')[2]}:{at.lineno}"
        world.story.extend(traceback.format_exc().splitlines())
    finally:
        if violation is not None:
            world.deliver(f"VIOLATION {violation}")
        for lg, (level, propagate) in zip(loggers, before, strict=True):
            lg.removeHandler(ear)
            lg.setLevel(level)
            lg.propagate = propagate
    return Outcome(
        seed, world.fingerprint, violation, world.reached, history.acks, world.events, world.faults, list(world.story)
    )


def live(
    world: World,
    history: History,
    faults_s: float,
    faults_max: int | None,
    *,
    settings: Mapping[str, str] | None = None,
    change: Callable[[Cluster, float], None] = lambda *rest: None,
) -> None:
    """`change`: called before the faults, with their duration."""
    fault_kinds = FaultKinds.draw(world, wide=True)
    pause_ms = world.rng.choice(PAUSES_MS)
    log_bytes, records = world.rng.choice((LOG_BYTES_FEW, LOG_BYTES_PER_SNAPSHOT)), world.rng.choice(ENTRIES)
    world.deliver(f"fault kinds: {fault_kinds}; producers pause for up to {pause_ms} ms")
    world.deliver(f"{log_bytes} bytes of metadata log per snapshot, {records} records per entry")
    cluster = Cluster(
        world,
        snapshot_log_bytes=log_bytes,
        store_lag_ms=LAG_MS if fault_kinds.stale else 0,
        records_per_entry=records,
        probes=PROBES[world.seed % 2],
        cold=COLD[world.seed % 3],
        racks=2 * fault_kinds.racks,
        settings={**({"log.cleaner.backoff.ms": "3000"} if fault_kinds.changes else {}), **(settings or {})},
    )
    InvariantChecker(cluster)
    cluster.elected_uncleanly = history.unpromised.add
    cluster.want_topic("strict", 2, 3, min_insync_replicas="2", **world.rng.choice(LOGS))
    cluster.want_topic("pair", 1, 2, min_insync_replicas="2", **world.rng.choice(LOGS))
    cluster.want_topic("loose", 1, 3, min_insync_replicas="1", **world.rng.choice(LOGS))
    if fault_kinds.groups:
        cluster.want_topic(GROUP_OFFSETS_TOPIC, 3, 3, min_insync_replicas="2", cleanup_policy="compact")
    if fault_kinds.changes:
        again = cluster.want_topic(AGAIN, 1, 3, min_insync_replicas="2")
        history.named_by_id.add(key_of(again))
        policy = world.rng.choice(("delete", "compact"))
        small = {"segment_bytes": "2048", "min_cleanable_dirty_ratio": "0.05"}
        cluster.want_topic(KEYED, 1, 3, min_insync_replicas="2", cleanup_policy=policy, **small)
        history.compacted.add(KEYED)
    if fault_kinds.unclean:
        cluster.want_topic("brittle", 1, 2, min_insync_replicas="1", unclean_leader_election_enable="true")
    cluster.run_until(cluster.is_settled, 30, "the cluster's beginning")
    places = [("strict", 0), ("strict", 1), ("pair", 0), ("loose", 0)]
    producers: list[Producer | PipelinedProducer | ByIdProducer] = [
        Producer(cluster, history, f"p{i}", t, p, pause_ms) for i, (t, p) in enumerate(places)
    ]
    producers.append(Producer(cluster, history, "p3b", *places[3], pause_ms))
    producers += [PipelinedProducer(cluster, history, f"q{n}", places[:3], pause_ms) for n in "ab"]
    racks = ("rack-0", "rack-1", "rack-0", "") if fault_kinds.racks else ("", "", "", "")
    readers = [
        Reader(cluster, history, f"r{i}", t, p, careful=i != 1, rack=racks[i]) for i, (t, p) in enumerate(places)
    ]
    if fault_kinds.changes:
        producers.append(Producer(cluster, history, "pk", KEYED, 0, pause_ms))
        producers.append(ByIdProducer(cluster, history, "pa", AGAIN, pause_ms))
        by_id = ByIdReader(cluster, history, "ra", AGAIN)
    if fault_kinds.unclean:
        producers.append(Producer(cluster, history, "pu", "brittle", 0, pause_ms))
        readers.append(Reader(cluster, history, "ru", "brittle", 0))
    groups: GroupHistory = OwnedPartitions() if world.seed % 2 else GroupHistory()
    kind = (
        partial(Consumer, cluster, groups) if isinstance(groups, OwnedPartitions) else partial(Member, cluster, groups)
    )
    members = [kind(f"m{n}", places) for n in "abc"] if fault_kinds.groups else []
    world.run(world.now_us + 1 * S)
    change(cluster, faults_s)
    injector = FaultInjector(cluster, history, fault_kinds, faults_max)
    injector.run(faults_s)
    cluster.run_until(cluster.is_settled, RECOVERY_S_MAX, "all replicas in sync after the last fault")
    if members:
        for member in members:
            member.calm = True
        cluster.run_until(lambda: in_step(members), 30, "the group in one generation")
        for member in members:
            member.stopped = True
        world.run(world.now_us + 4 * S)  # requests in flight are answered now, or not at all
        auditor = Auditor(cluster, places)
        cluster.run_until(lambda: auditor.committed is not None, 20, "the committed offsets")
        groups.verify(auditor.committed or {})
        world.reached["group generations"] += groups.newest
        history.acks += groups.acks
    for producer in producers:
        producer.stopped = True
    cluster.run_until(lambda: all(p.idle for p in producers), 20, "the last acknowledgements")
    ends = lambda: all(  # noqa: E731
        len(
            {
                r.core.high_watermark
                for b in s.replicas
                if (r := cluster.brokers[b].broker.replica_manager.hosted.get(TopicPartition(t.topic_id, i)))
            }
        )
        == 1
        for t, i, s in cluster.image.each_partition()
    )
    cluster.run_until(lambda: ends() and cluster.is_settled(), 20, "equal high watermarks")
    for reader in readers:
        if reader.topic in history.unpromised:
            continue
        log = leader_replica(cluster, reader.topic, reader.partition)
        cluster.run_until(
            lambda r=reader, end=log.core.high_watermark: r.offset == end, 20, f"{reader.name} at the end"
        )  # type: ignore[misc]
        if reader.careful and reader.ends_told == 0:
            raise Violation(f"{reader.name} never got an end offset")
    for reader in readers:
        reader.stopped = True
    if fault_kinds.changes:
        end = leader_replica(cluster, AGAIN, 0).core.high_watermark
        cluster.run_until(lambda: by_id.offset == end, 20, f"{by_id.name} at the end")
        by_id.stopped = True
    logs_agree(cluster, but=(KEYED, GROUP_OFFSETS_TOPIC))
    history.verify(cluster)


def leader_replica(cluster: Cluster, topic: str, index: int) -> Replica:
    """The leader's replica."""
    state = cluster.image.topic_named(topic)
    assert state is not None
    return cluster.brokers[state.partitions[index].leader].broker.replica_manager.hosted[
        TopicPartition(state.topic_id, index)
    ]
