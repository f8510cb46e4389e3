"""The values of half messages, delayed messages and dead letters in worlds with faults: what the console and Prometheus show is what happened, also after
changes of leaders. The truth comes from the producers and from the logs of the topics.

A record that is in transfer between the front topic and its target does not count as waiting any more, and is not in the target yet. So values are compared
when nothing is in transfer.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from brokerd.apis.delayed_messages import build_response as build_delayed_response
from brokerd.apis.half_messages import build_response as build_half_response
from brokerd.apis.share_dead_letters import ShareDeadLetters
from brokerd.delivery.delay_lookup import PendingPage
from brokerd.delivery.delayed_front import DelayedFront
from brokerd.delivery.half_front import HalfFront
from brokerd.wire.messages.delayed_messages import DelayedMessagesRequest
from brokerd.wire.messages.half_messages import HalfMessagesRequest
from brokerd.wire.records import iterate
from tests.simulation.checkers import Violation
from tests.simulation.cluster import Cluster
from tests.simulation.run import leader_replica

CHECKS_LATE = 5
"""A leader reads a decision or an expiry at most this many comparisons later: it may wait for the disk."""
SLACK_MS = 1_000
"""A leader may handle a record that is due this much later."""


def log_values(cluster: Cluster, topic: str, partition: int) -> set[bytes]:
    """The values in the log of the leader, to its end."""
    log, found = leader_replica(cluster, topic, partition).log, set[bytes]()
    at = log.start_offset
    while at < log.end_offset:
        read = list(iterate(log.read(at, 1 << 20, log.end_offset).bytes()))
        found.update(r.value for r in read if r.value is not None)
        at = read[-1].offset + 1
    return found


def front_of(cluster: Cluster, name: str, partition: int) -> tuple[Any, int] | None:
    """(the front of the leader, its wall clock in Unix ms). None: it does not know all records yet."""
    replica = leader_replica(cluster, name, partition)
    delivery = cluster.brokers[replica.core.leader].broker.front_delivery
    found = delivery.fronts.get((name, partition))
    return None if found is None or not found[0].ready else (found[0], delivery.clock().wall_ms)


class UndecidedChecker:
    """Compares the undecided half messages of a front topic, while no producer writes and messages expire."""

    def __init__(self, front_topic: str, expired: str) -> None:
        self._front_topic, self._expired = front_topic, expired
        self._earlier: dict[int, deque[tuple[set[bytes], set[bytes]]]] = {}
        """(ids without a fate, ids that were missing in the response) of the last CHECKS_LATE comparisons, by partition."""

    def check(self, cluster: Cluster, partition: int, undecided: set[bytes]) -> bool:
        """`undecided`: ids of acknowledged messages without an acknowledged decision. Returns whether the response had exactly those without a fate."""
        found = front_of(cluster, self._front_topic, partition)
        if found is None:
            return False
        front, _ = found
        assert isinstance(front, HalfFront)
        response = build_half_response(front, HalfMessagesRequest(messages_max=1_000))
        there = undecided - log_values(cluster, self._expired, partition)
        named = {m.half_id for m in response.messages}
        earlier = self._earlier.setdefault(partition, deque(maxlen=CHECKS_LATE))
        wrong = response.undecided != len(named)
        if len(earlier) == CHECKS_LATE:
            there_before, missing_before = earlier[0]
            wrong = wrong or not named <= there_before or bool(missing_before & (there - named))
        if wrong:
            place = f"{self._front_topic}-{partition}"
            raise Violation(f"{place} reports {response.undecided} undecided messages, there are {len(there)}")
        earlier.append((there, there - named))
        return named == there


def check_pending(cluster: Cluster, front_topic: str, partition: int, times: Counter[int]) -> bool:
    """`times`: number of acknowledged records by delivery time. Returns whether the value could be compared now."""
    found = front_of(cluster, front_topic, partition)
    if found is None:
        return False
    front, now_ms = found
    assert isinstance(front, DelayedFront)
    if front._next_offset < front._log.last_stable_offset:
        return False  # the leader waits for a slow disk, and does not know the newest records yet
    response = build_delayed_response(front, DelayedMessagesRequest(bounds_ms=[]), PendingPage((), None))
    least = sum(n for at, n in times.items() if at > now_ms)
    most = sum(n for at, n in times.items() if at > now_ms - SLACK_MS)
    if not least <= response.pending + response.due <= most + front.waiting:
        raise Violation(
            f"{front_topic}-{partition} reports {response.pending} pending and {response.due} due records, there are {least} to {most}, "
            f"{front.waiting} wait"
        )
    if response.due or front._taken:
        return False  # records of a bucket that is being read from a slow disk, and those behind it, are pending until it is read, also overdue ones
    if not least <= response.pending <= most:
        raise Violation(
            f"{front_topic}-{partition} reports {response.pending} pending records, there are {least} to {most}"
        )
    first = min((at for at in times if at > now_ms), default=None)
    if first is not None and not now_ms - SLACK_MS < response.earliest_ms <= first:
        raise Violation(f"{front_topic}-{partition} reports {response.earliest_ms} as the next delivery, it is {first}")
    return least > 0


@contextmanager
def letters_counted() -> Iterator[list[ShareDeadLetters]]:
    """Every object that counts dead letters, of ended brokers, too."""
    begin, found = ShareDeadLetters.__init__, list[ShareDeadLetters]()

    def begin_and_record(self: ShareDeadLetters, *rest: Any, **options: Any) -> None:
        begin(self, *rest, **options)
        found.append(self)

    ShareDeadLetters.__init__ = begin_and_record  # type: ignore[method-assign]
    try:
        yield found
    finally:
        ShareDeadLetters.__init__ = begin  # type: ignore[method-assign]


def check_letters(counted: list[ShareDeadLetters], letters: Counter[tuple[int, int]], least: int) -> None:
    """`letters`: number of dead letters of each record, from their topic. Each is counted by the leader that got the response: a leader that lost it does not
    count it, and its successor writes and counts the record again. `least`: number of records that were archived after their dead letter."""
    written = sum(x.written for x in counted)
    if not least <= written <= letters.total():
        raise Violation(f"{written} dead letters are counted, {letters.total()} are in the topic, {least} are required")
    for x in counted:
        by_group = sum(c.written for c in x.counts.values()), sum(c.unwritten for c in x.counts.values())
        if by_group != (x.written, x.unwritten):
            raise Violation(
                f"a broker counts {x.written}, {x.unwritten} dead letters, and {by_group} by group and topic"
            )
