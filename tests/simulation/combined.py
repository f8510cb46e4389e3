"""Worlds in which everything runs together: one cluster has the loads of the other worlds at the same time, under all of their faults. The seed chooses
loads and faults. `python -m tests.simulation --combined`.

The rules are those of the loads (`combined_loads`, `combined_deliveries`), of `tailmoves.TailWatch` and of `archive`. Does not contain: tiered storage, key
indexes, majority acknowledgements, ACLs, jumps of wall clocks beyond CLOCK_ERROR_MS.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import fields

from brokerd.cluster.snapshots import LOG_BYTES_PER_SNAPSHOT
from brokerd.delivery.limits import DeliveryLimits
from tests.simulation.archive import Archive
from tests.simulation.checkers import History, logs_agree
from tests.simulation.cluster import COLD, Cluster
from tests.simulation.combined_deliveries import DelayLoad, HalfLoad, RouteLoad
from tests.simulation.combined_faults import (
    CLOCK_ERROR_MS,
    CombinedFaultInjector,
    PreferredElector,
    set_clock_speeds,
)
from tests.simulation.combined_loads import IDLE_S, INTERNAL, GroupLoad, Load, PlainLoad, ShareLoad, TransactionLoad
from tests.simulation.combined_stores import KeyLoad, MajorityLoad, TieredLoad
from tests.simulation.fault_injector import AFTERMATH_S, FaultKinds
from tests.simulation.log_dirs import DIRS, LogDirOperator
from tests.simulation.majority import MajorityChecker
from tests.simulation.producer_state import RestartWatch, producers_agree
from tests.simulation.run import ENTRIES, LAG_MS, LOG_BYTES_FEW, PROBES, RECOVERY_S_MAX
from tests.simulation.tailmoves import TailWatch
from tests.simulation.world import MS, S, World

FAULTS_S_MAX = 9
"""Shorter than other worlds: each has many clients."""
BROKERS = 4
LOADS: tuple[type[Load], ...] = (
    GroupLoad,
    HalfLoad,
    DelayLoad,
    RouteLoad,
    KeyLoad,
    MajorityLoad,
    TieredLoad,
    PlainLoad,
    TransactionLoad,
    ShareLoad,
)
"""They finish in this order. The last ones wait for equal high watermarks, and until then every other load must be silent."""
ALL_OF = 4
"""One seed in so many has all loads and all faults. Others have each with CHOSEN."""
CHOSEN = 0.5
SETTINGS = {"log.dirs": ",".join(DIRS), "log.retention.check.interval.ms": "1000", "log.cleaner.backoff.ms": "3000"}


class CombinedWatch(MajorityChecker, TailWatch):
    """The rules of majority acknowledgements for the topics that have them, and those of the ISR for the others."""

    majority_topics = MajorityLoad.kept


def live(world: World, history: History, faults_s: float, faults_max: int | None) -> None:
    share, duration_s = 1.0 if world.seed % ALL_OF == 0 else CHOSEN, min(faults_s, FAULTS_S_MAX)
    fault_kinds = FaultKinds(**{f.name: world.chance(share) for f in fields(FaultKinds)})
    kinds = [kind for kind in LOADS if world.chance(share)] or [PlainLoad]
    clock_steps, drift, early = world.chance(share), world.chance(share), world.chance(0.5)
    world.deliver(f"fault kinds: {fault_kinds}; clock steps: {clock_steps}, drift: {drift}, early: {early}")
    world.deliver(f"loads: {', '.join(kind.__name__ for kind in kinds)}")
    loads = [kind(world, history, CLOCK_ERROR_MS if clock_steps else 0) for kind in kinds]
    with ExitStack() as stack:
        for load in loads:
            stack.enter_context(load.context())
        cluster = create_cluster(world, fault_kinds, loads)
        cluster.elected_uncleanly = history.unpromised.add
        if drift:
            set_clock_speeds(cluster)
        for load in loads:
            load.cluster = cluster
            load.create()
        cluster.run_until(cluster.is_settled, 30, "the cluster's beginning")
        for load in loads:
            load.begin(duration_s)
        world.run(world.now_us + 1 * S)
        LogDirOperator(cluster, duration_s)
        PreferredElector(cluster, duration_s)
        moved = tuple(name for load in loads for name in load.moved)
        tiered = tuple(name for load in loads for name in load.tiered)
        remote = any("remote.log.storage.url" in load.settings for load in loads)
        injector = CombinedFaultInjector(
            cluster,
            history,
            fault_kinds,
            faults_max,
            moved,
            early=early,
            tiered=tiered,
            clock_steps=clock_steps,
            remote=remote,
        )
        run_faults(world, injector, loads, duration_s)
        end(cluster, injector, loads)


def create_cluster(world: World, fault_kinds: FaultKinds, loads: list[Load]) -> Cluster:
    checker = next((load.checker for load in loads if isinstance(load, ShareLoad)), None)
    settings, limits = dict(SETTINGS), dict[str, int]()
    for load in loads:
        settings |= load.settings
        limits |= load.limits
    cluster = Cluster(
        world,
        brokers=BROKERS,
        settings=settings,
        snapshot_log_bytes=world.rng.choice((LOG_BYTES_FEW, LOG_BYTES_PER_SNAPSHOT)),
        store_lag_ms=LAG_MS if fault_kinds.stale else 0,
        records_per_entry=world.rng.choice(ENTRIES),
        probes=PROBES[world.seed % 2],
        cold=COLD[world.seed // 2 % 3],
        racks=2 * fault_kinds.racks,
        share_observer=checker,
        limits=DeliveryLimits(**limits),
    )
    CombinedWatch(cluster, {name for load in loads for name in load.moved})
    RestartWatch(cluster)
    cluster.archive = Archive(cluster, tuple(name for load in loads for name in load.kept))
    for name in INTERNAL:
        small = {"segment_bytes": world.rng.choice(("4096", "65536")), "min_cleanable_dirty_ratio": "0.05"}
        policy = {"retention_ms": "-1"} if name == INTERNAL[-1] else {"cleanup_policy": "compact"}
        cluster.want_topic(name, 2, 3, min_insync_replicas="2", **policy, **small)
    return cluster


def run_faults(world: World, injector: CombinedFaultInjector, loads: list[Load], duration_s: float) -> None:
    end_us = world.now_us + int(duration_s * S)
    while world.now_us < end_us and not injector.is_exhausted:
        world.run(end_us, lambda: injector.is_exhausted or any(load.waits_for_operator for load in loads))
        for load in loads:
            load.operate()
    if injector.is_exhausted:
        world.run(max(end_us, world.now_us + AFTERMATH_S * S))
    for load in loads:
        load.operate()
    injector.stop_faults()


def end(cluster: Cluster, injector: CombinedFaultInjector, loads: list[Load]) -> None:
    world = cluster.world
    for load in loads:
        load.on_faults_ended()
    cluster.run_until(
        lambda: injector.is_ended() and cluster.is_settled(),
        RECOVERY_S_MAX,
        "all replicas in sync after the last fault",
    )
    for load in loads:
        load.stop()
    clients = [client for load in loads for client in load.clients]
    cluster.run_until(lambda: all(c.idle for c in clients), IDLE_S, "the last responses to the clients")
    world.run(world.now_us + CLOCK_ERROR_MS * MS)  # what was early on a fast clock is due on all clocks
    for load in loads:
        load.finish()
    cluster.run_until(cluster.level, 20, "equal high watermarks")
    different = {*INTERNAL, *(name for load in loads for name in load.different)}
    logs_agree(cluster, but=tuple(different))
    # After a deletion a power failure may lose the state with its snapshot.
    world.reached["producers compared"] += producers_agree(
        cluster, lambda replicas: replicas[0].topic not in different and not any(r.log.start_offset for r in replicas)
    )
    assert cluster.archive is not None
    cluster.archive.check_logs()
    for load in loads:
        load.verify()
