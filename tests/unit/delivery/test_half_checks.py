"""Questions to producers: one batch at a time, the latest number of each message, again after an error."""

from __future__ import annotations

from brokerd.cluster.model import Now
from brokerd.delivery.front_log import FrontTarget
from brokerd.delivery.half_checks import WAITING_MAX, HalfChecks
from brokerd.delivery.half_messages import CheckProducers
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import Record
from tests.unit.delivery.front_bench import Bench


def bench_with_checks(undecided: set[int]) -> tuple[Bench, HalfChecks]:
    bench = Bench()
    bench.append(records.build([Record(i, 1, b"k", b"%d" % i) for i in range(4)]))
    return bench, HalfChecks(bench, undecided.__contains__, lambda now: None)


def numbers(bench: Bench) -> list[tuple[bytes | None, bytes | None]]:
    return [(r.value, dict(r.headers)["x-half-check"]) for r in bench.targets[FrontTarget.CHECK]]


def test_one_batch_is_sent_at_a_time_and_a_later_number_replaces_a_waiting_one() -> None:
    bench, checks = bench_with_checks({0, 1})
    checks.add(CheckProducers(b"0", 0, 1))
    checks.tick(bench.now)
    for number in (2, 3):
        checks.add(CheckProducers(b"1", 1, number))
    assert checks.room == WAITING_MAX - 1
    checks.tick(bench.now)
    assert len(bench.sent) == 1
    bench.respond()
    checks.tick(bench.now)
    bench.respond()
    assert numbers(bench) == [(b"0", b"1"), (b"1", b"3")] and checks.sent == 2


def test_an_error_leads_to_a_retry_without_decided_messages() -> None:
    undecided = {0, 1}
    bench, checks = bench_with_checks(undecided)
    for offset in (0, 1):
        checks.add(CheckProducers(b"%d" % offset, offset, 1))
    checks.tick(bench.now)
    bench.respond(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    checks.tick(bench.now)
    assert not bench.sent, "after a pause"
    undecided.discard(0)
    checks.tick(Now(bench.now.mono_ms + 1_000, bench.now.wall_ms))
    bench.respond()
    assert numbers(bench) == [(b"1", b"1")]


def test_a_response_to_a_closed_sender_is_ignored() -> None:
    bench, checks = bench_with_checks({0})
    checks.add(CheckProducers(b"0", 0, 1))
    checks.tick(bench.now)
    checks.closed = True
    bench.respond()
    assert checks.sent == 0
