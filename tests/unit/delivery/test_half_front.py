"""A front partition of half messages with its log and its target partitions in memory: admission, delivery, checks, expiry, leader changes."""

from __future__ import annotations

import pytest

from brokerd.delivery.front_log import FrontTarget
from brokerd.delivery.half_front import HalfFront, NotAdmitted
from brokerd.delivery.half_messages import HalfRejection
from brokerd.delivery.half_records import REJECTIONS
from brokerd.delivery.limits import DEFAULT_LIMITS, DeliveryLimits
from brokerd.delivery.recent_records import RecentRecords
from brokerd.delivery.transfer import OPEN_MAX
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import Record
from tests.unit.delivery.front_bench import START_MS, Bench


class HalfBench(Bench):
    front: HalfFront

    def lead(self) -> HalfFront:
        self.front = HalfFront(self, lambda: 77)
        return self.front

    def write(self, *pairs: tuple[str, str | None], producer_id: int = -1) -> NotAdmitted | None:
        """(id, decision) of each record of a batch, as a client writes it. The result of the admission, None: appended."""
        assert self.front.ready
        written = [self._record(i, half_id, decision) for i, (half_id, decision) in enumerate(pairs)]
        batch = records.build(
            written,
            base_offset=self.end_offset,
            producer_id=producer_id,
            transactional=producer_id >= 0,
            producer_epoch=min(producer_id, 0),
            base_sequence=min(producer_id, 0),
        )
        admitted = self.front.admit(records.iterate(batch), records.peek(batch), keyed=False)
        if isinstance(admitted, NotAdmitted):
            return admitted
        base = self.end_offset
        self.append(batch)
        self.front.on_appended(admitted, records.peek(batch), base)
        return None

    def _record(self, position: int, half_id: str, decision: str | None) -> Record:
        headers: tuple[tuple[str, bytes | None], ...] = (("x-half-id", half_id.encode()),)
        if decision is not None:
            headers = (*headers, ("x-half", decision.encode()))
        return Record(position, self.now.wall_ms, b"k", f"value {half_id}".encode(), headers)

    def wait(self, ms: int, *, responses: bool = True) -> None:
        self.pass_ms(self.front, ms, responses=responses)

    def values_at(self, target: FrontTarget) -> list[str]:
        return [v.removeprefix("value ") for v in self.values_of(target)]


def not_admitted(rejection: HalfRejection, i: int = 0, *, retriable: bool = False) -> NotAdmitted:
    return NotAdmitted(((i, REJECTIONS[rejection]),), retriable)


def leading_bench() -> HalfBench:
    bench = HalfBench()
    bench.lead()
    assert not bench.front.ready
    bench.wait(100)
    assert bench.front.ready
    return bench


def test_committed_messages_are_delivered_in_the_order_of_their_commits() -> None:
    bench = leading_bench()
    assert bench.write(("a", None), ("b", None), ("c", None)) is None
    bench.wait(1_000)
    assert bench.values_at(FrontTarget.TOPIC) == [] and bench.front.undecided == 3
    assert bench.write(("c", "commit"), ("b", "rollback")) is None
    bench.wait(300)
    assert bench.write(("a", "commit")) is None
    bench.wait(300)
    assert bench.values_at(FrontTarget.TOPIC) == ["c", "a"] and bench.front.undecided == 0
    assert bench.front.delivered == 2 and bench.target[0].timestamp > START_MS


def test_a_run_is_needed_only_when_a_decision_is_stable_that_was_not_read() -> None:
    bench = leading_bench()
    bench.write(("a", None), ("b", None))
    assert not bench.front.has_stable_decision(), "a half message needs no delivery"
    bench.replicated = bench.end_offset
    bench.write(("a", "commit"))
    assert not bench.front.has_stable_decision(), "the decision is not replicated"
    bench.replicated = None
    assert bench.front.has_stable_decision()
    bench.front.tick(bench.now)
    assert not bench.front.has_stable_decision() and len(bench.sent) == 1
    bench.write(("b", "rollback"))
    assert bench.front.has_stable_decision()
    bench.lead()
    assert not bench.front.has_stable_decision(), "a new leader reads all records first"


def test_a_batch_may_have_a_message_and_its_decision_but_only_one() -> None:
    bench = leading_bench()
    assert bench.write(("a", None), ("a", "commit")) is None
    assert bench.write(("b", None), ("b", None)) == not_admitted(HalfRejection.ID_IN_USE, 1)
    wrong = bench.write(("b", None), ("b", "commit"), ("b", "rollback"))
    assert wrong == not_admitted(HalfRejection.ALREADY_COMMITTED, 2)
    bench.wait(500)
    assert bench.values_at(FrontTarget.TOPIC) == ["a"] and bench.end_offset == 3, "two records and a journal entry"


def test_the_second_decision_is_told_the_first_one_when_that_is_replicated() -> None:
    bench = leading_bench()
    bench.write(("a", None))
    bench.wait(100)
    bench.replicated = bench.end_offset
    assert bench.write(("a", "rollback")) is None
    bench.wait(100)
    assert bench.write(("a", "commit")) == not_admitted(HalfRejection.NOT_STABLE, retriable=True)
    bench.replicated = None
    bench.wait(100)
    assert bench.write(("a", "commit")) == not_admitted(HalfRejection.ALREADY_ROLLED_BACK)


def test_producers_are_asked_and_the_message_expires_exactly_once() -> None:
    bench = leading_bench()
    bench.write(("a", None))
    bench.wait(6_000 + 30_000 * 15 - 1_000)
    numbers = [dict(r.headers)["x-half-check"] for r in bench.targets[FrontTarget.CHECK]]
    assert numbers == [b"%d" % n for n in range(1, 16)]
    assert bench.values_at(FrontTarget.EXPIRED) == [] and bench.front.undecided == 1
    bench.wait(2_000, responses=False)
    assert bench.write(("a", "commit")) == not_admitted(HalfRejection.ALREADY_EXPIRED)
    bench.front.close()
    bench.lead()
    bench.wait(5_000)
    assert bench.values_at(FrontTarget.EXPIRED) == ["a"] and bench.values_at(FrontTarget.TOPIC) == []
    assert bench.write(("a", "commit")) == not_admitted(HalfRejection.ALREADY_EXPIRED)


def test_an_expiry_that_is_not_stable_is_known_to_a_new_leader() -> None:
    bench = leading_bench()
    bench.write(("a", None))
    bench.wait(6_000 + 30_000 * 15 - 1_000)
    bench.stable = bench.end_offset  # a transaction is ongoing from here on
    bench.wait(3_000)
    bench.front.close()
    bench.lead()
    bench.wait(3_000)
    assert bench.front.ready
    assert bench.write(("a", "commit")) == not_admitted(HalfRejection.NOT_STABLE, retriable=True)
    bench.stable = None
    bench.wait(60_000)
    assert bench.values_at(FrontTarget.EXPIRED) == ["a"]
    assert bench.write(("a", "commit")) == not_admitted(HalfRejection.ALREADY_EXPIRED)


def test_a_check_that_was_not_accepted_is_sent_again_unless_the_message_is_decided() -> None:
    bench = leading_bench()
    bench.write(("a", None), ("b", None))
    bench.wait(6_100, responses=False)
    bench.respond(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    bench.write(("a", "rollback"))
    bench.wait(500)
    assert bench.values_at(FrontTarget.CHECK) == ["b"]


def test_a_new_leader_delivers_what_is_open_and_nothing_twice() -> None:
    bench = leading_bench()
    for i in range(30):
        bench.write((f"v{i}", None), (f"w{i}", None))
    for i in range(30):
        bench.write((f"v{i}", "commit"))
        if i == 20:
            bench.wait(200, responses=False)
            assert bench.sent
            bench.front.close()
            bench.lead()
            while bench.sent:
                bench.respond()
            bench.wait(100)
    bench.wait(2_000)
    assert bench.values_at(FrontTarget.TOPIC) == [f"v{i}" for i in range(30)] and bench.front.undecided == 30


def test_a_new_leader_knows_the_decisions_above_its_last_stable_offset() -> None:
    bench = leading_bench()
    bench.write(("a", None), ("b", None))
    bench.stable = 2
    bench.write(("a", "commit"), producer_id=7)
    bench.front.close()
    bench.lead()
    bench.wait(100)
    assert bench.write(("a", "rollback")) == not_admitted(HalfRejection.NOT_STABLE, retriable=True)
    assert bench.write(("b", "commit")) is None
    bench.aborts, bench.stable = [(7, 2, 2)], None
    bench.wait(500)
    assert bench.values_at(FrontTarget.TOPIC) == ["b"]
    assert bench.write(("a", "rollback")) is None, "the transaction with the first decision was aborted"


def test_records_stay_until_they_are_decided_and_old() -> None:
    bench = leading_bench()
    bench.write(("a", None))
    bench.write(("a", "commit"))
    bench.wait(DEFAULT_LIMITS.decided_keep_ms - 60_000)
    assert bench.start_offset == 0, "a new leader can still answer a second decision"
    bench.write(("b", None))
    bench.wait(60_000 + 2 * DEFAULT_LIMITS.log_start_ms)
    assert bench.start_offset == 0, "the chunk has an undecided message"
    bench.write(("b", "rollback"))
    bench.wait(DEFAULT_LIMITS.decided_keep_ms + 2 * DEFAULT_LIMITS.log_start_ms)
    assert bench.start_offset == bench.end_offset


def test_a_message_that_was_read_a_short_time_ago_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    read = HalfBench.read

    def counted_read(bench: HalfBench, offset: int, bytes_max: int, upto: int) -> bytes | None:
        reads.append(offset)
        return read(bench, offset, bytes_max, upto)

    monkeypatch.setattr(HalfBench, "read", counted_read)
    found = {}
    for bytes_max in (0, 100_000):
        bench = HalfBench()
        bench.front = HalfFront(bench, lambda: 77, RecentRecords(bytes_max))
        bench.wait(100)
        bench.write(("a", None), ("b", None))
        bench.wait(100)
        reads.clear()
        bench.write(("a", "commit"), ("b", "rollback"))
        bench.wait(100)
        found[bytes_max] = reads.count(0)
        assert bench.values_at(FrontTarget.TOPIC) == ["a"]
    assert found == {0: 1, 100_000: 0}


def test_a_new_decision_waits_for_the_next_run_and_a_due_message_for_the_response() -> None:
    bench = HalfBench()
    bench.front = HalfFront(bench, lambda: 77, limits=DeliveryLimits(batch_records=1))
    bench.wait(100)
    ids = [f"m{i}" for i in range(OPEN_MAX + 1)]
    bench.write(*((half_id, None) for half_id in ids), ("last", None))
    bench.write(*((half_id, "commit") for half_id in ids))
    bench.front.tick(bench.now)
    before = bench.end_offset
    bench.respond()
    assert bench.end_offset == before + 1, "the journal entry of the message for which there was no room"
    bench.write(("last", "commit"))
    before = bench.end_offset
    for _ in ids[1:]:
        bench.respond()
    assert bench.end_offset == before and not bench.sent
    bench.front.tick(bench.now)
    bench.respond()
    assert bench.values_at(FrontTarget.TOPIC) == [*ids, "last"]
