"""Worlds of a route with a principal: its ACLs are removed and added again, one at a time, under the faults of `run`.
`python -m tests.simulation --route-permissions`.

Invariants: a broker sends records to a target only while the ACLs in its metadata permit the principal to read the source and to write to this target. When
all brokers have applied a removal, and the requests from before it have expired, no target of the removed permission gets a record until the ACL is added.
At the end each record of the source is exactly once and in order in each target whose binding matches (`routes`). Does not check: quotas, changes of the
principal.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from brokerd.apis.local_append import LocalAppender, RouteConflict
from brokerd.apis.produce_results import PartitionResult
from brokerd.authz.acls import AclEntry, Operation, PatternType, Permission, Resource
from brokerd.cluster.image import Image
from brokerd.cluster.model import GROUP_OFFSETS_TOPIC
from brokerd.runtime.routing import Routing
from controlplane.controller.events import DesiredAccess
from tests.simulation.checkers import History, InvariantChecker, Violation, logs_agree
from tests.simulation.clients import Producer
from tests.simulation.cluster import COLD, Cluster
from tests.simulation.fault_injector import AFTERMATH_S, FaultInjector, FaultKinds
from tests.simulation.routes import (
    COPIES,
    LATE,
    MATCHING,
    PARTITIONS,
    SOURCE,
    RouteWorld,
    appends_watched,
    route_last_records,
    verify,
)
from tests.simulation.run import PROBES, RECOVERY_S_MAX
from tests.simulation.world import MS, S, World

PRINCIPAL = "User:router"
TARGETS = (COPIES, MATCHING, LATE)
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
EXPIRED_S = 6
"""Requests of routes expire after 5 s. After this time without a frozen broker, none from before a removal can arrive."""
PROPAGATION_S_MAX = 15
REMOVED_S = (1, 3)
"""Time for which no target of a removed permission may get a record."""


def acl_of(topic: str) -> AclEntry:
    operation = Operation.READ if topic == SOURCE else Operation.WRITE
    return AclEntry(Resource.TOPIC, PatternType.LITERAL, topic, PRINCIPAL, "*", operation, Permission.ALLOW)


def is_permitted(image: Image, topic: str) -> bool:
    return image.access_to("acl", acl_of(topic).key)[1] is not None


class RoutePermissions:
    """The ACLs of the principal, and the targets that may get nothing at present."""

    def __init__(self, cluster: Cluster, targets: tuple[str, ...] = TARGETS) -> None:
        self.cluster, self.world, self.targets = cluster, cluster.world, targets
        self.closed: frozenset[str] = frozenset()
        self._generations = dict.fromkeys((SOURCE, *targets), 0)

    def run(self, steps: Iterator[int]) -> None:
        """Run the world for the microseconds between the steps."""
        for pause_us in steps:
            self.world.run(self.world.now_us + pause_us)

    def set(self, topic: str, *, allowed: bool) -> Iterator[int]:
        """Write the row of the ACL. Repeated until the metadata log has it: a new controller does not know the row."""
        acl = acl_of(topic)
        self._generations[topic] += 1
        row = DesiredAccess("acl", acl.key, self._generations[topic], acl.to_json() if allowed else None)
        deadline_us = self.world.now_us + RECOVERY_S_MAX * S
        while self.cluster.image.access_to("acl", acl.key)[0] < self._generations[topic]:
            if self.world.now_us > deadline_us:
                raise Violation(f"the ACL of {topic} does not reach the metadata log")
            if self.cluster.acting is not None:
                self.cluster.deliver_desired(row)
            yield S // 5

    def remove_and_add(self, topic: str, routes: RouteWorld) -> Iterator[int]:
        """Yields the microseconds until the next step."""
        self.world.deliver(f"{PRINCIPAL} loses its permission of {topic}")
        self.world.reached[f"permission of {'the source' if topic == SOURCE else 'a target'} removed"] += 1
        yield from self.set(topic, allowed=False)
        if (yield from self._wait_until_propagated(self.cluster.image.seq)):
            self.closed = frozenset(self.targets if topic == SOURCE else (topic,))
            self.world.reached["removal applied by all brokers"] += 1
            yield self.world.between(*(s * S for s in REMOVED_S))
        for partition in range(PARTITIONS[SOURCE]):
            self._count_problems(routes, partition)
        self.closed = frozenset()
        self.world.deliver(f"{PRINCIPAL} gets its permission of {topic} again")
        yield from self.set(topic, allowed=True)

    def _wait_until_propagated(self, seq: int) -> Generator[int, None, bool]:
        """Wait until all brokers have applied this entry of the metadata log, and requests from before have expired. False: a fault prevents it."""
        deadline_us = self.world.now_us + PROPAGATION_S_MAX * S
        since_us = self.world.now_us
        while self.world.now_us - since_us < EXPIRED_S * S:
            if self.world.now_us > deadline_us:
                return False
            yield 20 * MS
            alive = [b for b in self.cluster.brokers.values() if b.alive]
            if any(b.frozen or b.broker.replica_manager.image.seq < seq for b in alive):
                since_us = self.world.now_us
        return True

    def _count_problems(self, routes: RouteWorld, partition: int) -> None:
        topic = self.cluster.image.topic_named(SOURCE)
        assert topic is not None
        node = self.cluster.brokers.get(topic.partitions[partition].leader)
        found = node.broker.routing.running.get(("r", SOURCE, partition)) if node is not None and node.alive else None
        for _, problem, _ in found[0].problems if found is not None else ():
            self.world.reached[f"problem {problem}"] += 1


@contextmanager
def permissions_watched(world: World, cluster: Cluster, permissions: RoutePermissions) -> Iterator[None]:
    send, append = Routing.send, LocalAppender.append_routed

    def send_and_check(self: Routing, target: Any, batch: bytes, query: Any, done: Any) -> None:
        image = self.replica_manager.image
        topic = image.topics.get(target.topic_id)
        name = topic.name if topic is not None else ""
        for needed in (SOURCE, name):
            if name in permissions.targets and not is_permitted(image, needed):
                raise Violation(f"a broker whose metadata has no ACL of {needed} sends records to {name}")
        send(self, target, batch, query, done)

    def append_and_check(self: LocalAppender, replica: Any, data: Any, expected: int) -> Any:
        found = append(self, replica, data, expected)
        topic = cluster.image.topics.get(replica.tp.topic_id)
        if topic is not None and not isinstance(found, RouteConflict | PartitionResult):
            world.reached["routed batch appended"] += 1
            if topic.name in permissions.closed:
                raise Violation(f"{topic.name} gets records although all brokers have applied the removal of an ACL")
        return found

    Routing.send = send_and_check  # type: ignore[method-assign]
    LocalAppender.append_routed = append_and_check  # type: ignore[method-assign]
    try:
        yield
    finally:
        Routing.send, LocalAppender.append_routed = send, append  # type: ignore[method-assign]


def live(world: World, history: History, faults_s: float, faults_max: int | None) -> None:
    fault_kinds = FaultKinds.draw(world)
    world.deliver(f"fault kinds: {fault_kinds}")
    history.compacted.add(SOURCE)  # so that records have keys
    cluster = Cluster(world, settings=SETTINGS, probes=PROBES[world.seed % 2], cold=COLD[world.seed % 3])
    permissions = RoutePermissions(cluster)
    with appends_watched(world), permissions_watched(world, cluster, permissions):
        InvariantChecker(cluster)
        small = {"segment_bytes": world.rng.choice(("4096", "65536"))}
        cluster.want_topic(GROUP_OFFSETS_TOPIC, 1, 3, min_insync_replicas="2", cleanup_policy="compact", **small)
        for name in (SOURCE, *TARGETS):
            cluster.want_topic(name, PARTITIONS[name], 3, min_insync_replicas="2", **small)
        cluster.run_until(cluster.is_settled, 30, "the cluster's beginning")
        for name in (SOURCE, *TARGETS):
            permissions.run(permissions.set(name, allowed=True))
        routes = RouteWorld(cluster)
        routes.declare(principal=PRINCIPAL)
        cluster.run_until(routes.is_started, 30, "the first positions of the route")
        producers = [Producer(cluster, history, f"p{p}.{n}", SOURCE, p, 150) for p in range(2) for n in "ab"]
        world.run(world.now_us + 1 * S)
        injector = FaultInjector(cluster, history, fault_kinds, faults_max)
        end_us = world.now_us + int(faults_s * S)
        order = world.rng.sample(TARGETS, len(TARGETS))
        order.insert(len(order) - world.seed % 2, SOURCE)  # the first or the second one
        while order and world.now_us < end_us and not injector.is_exhausted:
            permissions.run(permissions.remove_and_add(order.pop(), routes))
            world.run(world.now_us + world.between(0, 1 * S))
        if injector.is_exhausted:
            world.run(max(end_us, world.now_us + AFTERMATH_S * S))
        injector.stop_faults()
        route_last_records(cluster, routes, producers)
        logs_agree(cluster, but=(GROUP_OFFSETS_TOPIC,))
        verify(cluster, world, history)
