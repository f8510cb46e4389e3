"""All front partitions: nothing happens before the journals were read, and nothing twice after the log has rejected a journal entry."""

from __future__ import annotations

from brokerd.delivery.front_log import FrontTarget
from brokerd.delivery.front_partition import FrontState
from tests.unit.delivery.test_delayed_front import DelayBench


def test_nothing_is_sent_before_the_journal_was_read_and_every_replica_has_it() -> None:
    bench = DelayBench()
    bench.write("v", 0)
    bench.settled = False
    front = bench.lead()
    bench.pass_ms(front, 500)
    assert front.state is FrontState.JOURNAL and not bench.sent
    bench.settled, bench.cold = True, True
    bench.pass_ms(front, 500)
    assert front.state is FrontState.JOURNAL
    bench.cold = False
    bench.pass_ms(front, 500)
    assert bench.values == ["v"]


def test_the_journal_entry_must_be_replicated_first() -> None:
    bench = DelayBench()
    bench.write("v", 200)
    front = bench.lead()
    bench.pass_ms(front, 100)
    bench.replicated = 1
    bench.pass_ms(front, 400, responses=False)
    assert bench.end_offset == 2 and not bench.sent
    bench.replicated = None
    bench.pass_ms(front, 100)
    assert bench.values == ["v"]


def test_a_rejected_journal_entry_begins_the_reading_again() -> None:
    class RejectingBench(DelayBench):
        rejections = 2

        def append_journal(self, target: FrontTarget, values: list[bytes]) -> int | None:
            if self.rejections:
                self.rejections -= 1
                return None
            return super().append_journal(target, values)

    bench = RejectingBench()
    front = bench.lead()
    for value in ("a", "b"):
        bench.write(value, 0)
    bench.pass_ms(front, 2_000)
    assert bench.values == ["a", "b"] and front.delivered == 2 and front.waiting == 0


def test_a_closed_front_partition_ignores_answers_and_time() -> None:
    bench = DelayBench()
    front = bench.lead()
    bench.write("a", 0)
    bench.pass_ms(front, 300, responses=False)
    assert bench.sent
    front.close()
    bench.respond()
    front.tick(bench.now)
    assert front.closed and front.delivered == 0
