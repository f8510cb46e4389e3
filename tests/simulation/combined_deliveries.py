"""The loads of `combined` whose records are delivered by brokers: half messages, delayed messages and routes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Any, ClassVar

from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from tests.simulation import delays, exactly_once, half_changes, halves, route_changes, route_permissions, routes
from tests.simulation.checkers import History, Violation
from tests.simulation.cluster import Cluster
from tests.simulation.combined_loads import Load
from tests.simulation.delays import DelayProducer, Schedule
from tests.simulation.exactly_once import DECIDED_S, is_decided
from tests.simulation.half_changes import RepeatProducer
from tests.simulation.halves import HalfMessages, HalfProducer
from tests.simulation.metrics import UndecidedChecker, check_pending
from tests.simulation.route_changes import GROWN, RoutedTransactor
from tests.simulation.route_keys import CustomerProducer, customer_of
from tests.simulation.route_permissions import PRINCIPAL, RoutePermissions
from tests.simulation.routes import BINDINGS, COPIES, MATCHING, PARTITIONS, SOURCE, RouteWorld
from tests.simulation.run import RECOVERY_S_MAX
from tests.simulation.topic_changes import front_configs
from tests.simulation.transactors import Ledger
from tests.simulation.world import S, World

COMPARISONS = 4
"""Comparisons of the values of each front partition, half a second apart."""
COUNTS = (3,)
"""The number of partitions to which topics grow."""


class HalfLoad(Load):
    settings = half_changes.SETTINGS
    limits = half_changes.LIMITS
    kept = halves.KEPT
    different = (halves.FRONT,)

    @contextmanager
    def context(self) -> Iterator[None]:
        self.shop = HalfMessages(clock_error_ms=self.clock_error_ms)
        with halves.sends_watched(self.world, self.shop):
            yield

    def create(self) -> None:
        for name in (halves.TOPIC, halves.CHECK, halves.EXPIRED):
            self.topic(name, halves.PARTITIONS)
        self.topic(halves.FRONT, halves.PARTITIONS, weir_half_topic=halves.TOPIC, segment_bytes="4096")

    def begin(self, duration_s: float) -> None:
        def add(kind: type[HalfProducer], partition: int, names: str) -> None:
            made = (kind(self.cluster, self.history, f"h{partition}{n}", partition, self.shop) for n in names)
            self.clients.extend(made)

        def on_partitions_added(name: str, count: int) -> None:
            if name == halves.FRONT and not self.clients[0].stopped:
                add(HalfProducer, count - 1, "ab")

        for partition in range(halves.PARTITIONS):
            add(HalfProducer, partition, "ab")
            add(RepeatProducer, partition, "r")
        configs = {halves.FRONT: front_configs("1024")}
        together = (halves.TOPIC, halves.FRONT, halves.CHECK, halves.EXPIRED)
        self.operate_topics(duration_s, together, COUNTS, on_partitions_added, configs)

    def finish(self) -> None:
        metrics = UndecidedChecker(halves.FRONT, halves.EXPIRED)
        for _ in range(COMPARISONS):
            self.world.run(self.world.now_us + S // 2)
            for partition in range(self.cluster.topics[halves.FRONT].partitions):
                undecided = halves.undecided_ids(self.shop, partition)
                self.world.reached["metric of half messages"] += metrics.check(self.cluster, partition, undecided)
        self.cluster.run_until(
            lambda: halves.is_drained(self.cluster), RECOVERY_S_MAX, "all half messages decided and deleted"
        )

    def verify(self) -> None:
        halves.verify(self.cluster, self.world, self.shop)


class DelayLoad(Load):
    settings: ClassVar[dict[str, str]] = {"log.retention.check.interval.ms": "1000"}
    limits = delays.LIMITS
    different = (delays.FRONT,)

    @contextmanager
    def context(self) -> Iterator[None]:
        self.schedule = Schedule(clock_error_ms=self.clock_error_ms)
        with delays.deliveries_watched(self.world, self.schedule), delays.indexes_used(self.world):
            yield

    def create(self) -> None:
        self.topic(delays.TOPIC, delays.PARTITIONS)
        self.topic(delays.FRONT, delays.PARTITIONS, weir_delay_topic=delays.TOPIC, segment_bytes="4096")

    def begin(self, duration_s: float) -> None:
        def add(partition: int) -> None:
            self.clients.append(DelayProducer(self.cluster, self.history, f"d{partition}", partition, self.schedule))

        def on_partitions_added(name: str, count: int) -> None:
            if name == delays.FRONT and not self.clients[0].stopped:
                add(count - 1)

        for partition in range(delays.PARTITIONS):
            add(partition)
        self.operate_topics(
            duration_s, (delays.TOPIC, delays.FRONT), COUNTS, on_partitions_added, {delays.FRONT: front_configs("4096")}
        )

    def finish(self) -> None:
        for _ in range(COMPARISONS):
            self.world.run(self.world.now_us + S // 2)
            for partition in range(self.cluster.topics[delays.FRONT].partitions):
                times = Counter(
                    self.schedule.times[v] for v, (at, _) in self.schedule.placed.items() if at == partition
                )
                self.world.reached["metric of delayed messages"] += check_pending(
                    self.cluster, delays.FRONT, partition, times
                )
        self.cluster.run_until(
            lambda: delays.is_drained(self.cluster), RECOVERY_S_MAX, "all delayed records delivered and deleted"
        )

    def verify(self) -> None:
        delays.verify(self.cluster, self.world, self.schedule)


PERMITTED_S = 90
"""Two removals, each with `PROPAGATION_S_MAX`, `REMOVED_S` and two writes of the ACL."""
RENAMED = "renamed"
"""The target whose copies have the key of a header."""
HEADER = "customer"


class RenamingRoute(RouteWorld):
    def __init__(self, cluster: Cluster, **always: str) -> None:
        """`always`: fields of each definition of the route."""
        super().__init__(cluster)
        self.always = always

    def declare(self, **changes: Any) -> None:
        renaming = {"target": RENAMED, "match": {"kind": "all"}, "key_from_header": HEADER}
        super().declare(bindings=[*BINDINGS, renaming], **self.always, **changes)


class PermissionOperator:
    """Removes two permissions of the route's principal, one after the other, and adds them again. Continues after the faults."""

    def __init__(self, permissions: RoutePermissions, routes: RouteWorld) -> None:
        self._world, self.done = permissions.world, False
        topics = self._world.rng.sample((SOURCE, *permissions.targets), 2)
        self._steps = chain.from_iterable(permissions.remove_and_add(topic, routes) for topic in topics)
        self._step()

    def _step(self) -> None:
        pause_us = next(self._steps, None)
        if pause_us is None:
            self.done = True
        else:
            self._world.after(pause_us, self._step)


def routed_key(target: str, value: bytes, key: bytes) -> bytes:
    """The key of the copy. Transactions write no header."""
    writer, _, number = value.partition(b":")
    if target != RENAMED or writer.endswith(b".t") or b"z" in writer or int(number) % 3 == 0:
        return key
    return customer_of(int(number))


class RouteLoad(Load):
    """A route whose source has transactions and retention, whose targets grow, and which changes keys. In half of the worlds the brokers have an authorizer,
    and the route has a principal that loses permissions."""

    kept = (SOURCE,)
    different = (GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC)

    def __init__(self, world: World, history: History, clock_error_ms: int) -> None:
        super().__init__(world, history, clock_error_ms)
        self.limited = world.chance(0.5)
        authorizer = route_permissions.SETTINGS if self.limited else {}
        self.settings = {**exactly_once.SETTINGS, "log.retention.check.interval.ms": "1000", **authorizer}

    @contextmanager
    def context(self) -> Iterator[None]:
        self.history.compacted.add(SOURCE)  # so that records have keys
        with ExitStack() as self.stack:
            self.stack.enter_context(routes.appends_watched(self.world))
            self.lost = self.stack.enter_context(route_changes.losses_watched(self.world))
            yield

    def create(self) -> None:
        retention = self.world.rng.choice(route_changes.RETENTIONS)
        self.topic(SOURCE, PARTITIONS[SOURCE], segment_bytes="2048", retention_bytes=retention)
        for name in (COPIES, MATCHING):
            self.topic(name, PARTITIONS[name])
        self.topic(RENAMED, 2)

    def begin(self, duration_s: float) -> None:
        cluster, history, kind = self.cluster, self.history, self.world.rng.choice((1, 2))
        self.routes = RenamingRoute(cluster, **({"principal": PRINCIPAL} if self.limited else {}))
        if self.limited:
            self._permit()
        self.routes.declare()
        cluster.run_until(self.routes.is_started, 30, "the first positions of the route")
        self.clients = [
            *(CustomerProducer(cluster, history, f"p{p}.{n}", SOURCE, p, 500) for p in range(2) for n in "ab"),
            RoutedTransactor(cluster, Ledger(), "p0.t", "id-route", kind),
        ]
        self.operator = route_changes.Operator(cluster, self.routes, {}, duration_s)
        self.permission_operator = PermissionOperator(self.permissions, self.routes) if self.limited else None

    def _permit(self) -> None:
        self.permissions = RoutePermissions(self.cluster, (*route_permissions.TARGETS, RENAMED))
        watching = route_permissions.permissions_watched(self.world, self.cluster, self.permissions)
        self.stack.enter_context(watching)
        for name in (SOURCE, *self.permissions.targets):
            self.permissions.run(self.permissions.set(name, allowed=True))

    @property
    def waits_for_operator(self) -> bool:
        return bool(self.operator.waiting)

    def operate(self) -> None:
        self.operator.apply()

    def finish(self) -> None:
        operator = self.permission_operator
        self.cluster.run_until(lambda: operator is None or operator.done, PERMITTED_S, "the permissions of the route")
        sources = [(SOURCE, p) for p in range(PARTITIONS[SOURCE])]
        self.cluster.run_until(
            lambda: all(is_decided(self.cluster, s) for s in sources), DECIDED_S, "every transaction to be decided"
        )
        self.cluster.run_until(self.routes.is_drained, RECOVERY_S_MAX, "all records routed and the positions committed")

    def verify(self) -> None:
        places, _ = route_changes.places_of(self.cluster)
        for p in range(PARTITIONS[SOURCE]):
            if lost := [v for v in self.history.acknowledged[SOURCE, p] if v not in places]:
                raise Violation(f"{SOURCE}-{p} lacks {lost[:3]}")
        targets = {**GROWN, RENAMED: (2,)}
        route_changes.verify(self.cluster, self.world, self.lost, targets, routed_key)
