"""A front partition is found only by the leader that knows all of its records."""

from __future__ import annotations

from uuid import UUID

from brokerd.cluster.model import TopicPartition
from brokerd.delivery.half_front import HalfFront
from brokerd.delivery.led_fronts import LedFronts
from tests.unit.delivery.test_half_front import HalfBench, leading_bench

TP = TopicPartition(UUID(int=1), 0)


def test_a_partition_is_found_while_it_is_led_and_read() -> None:
    bench, leads = leading_bench(), [True]
    fronts: LedFronts[HalfFront] = LedFronts()
    assert fronts.find(TP) is None
    fronts.add(TP, bench.front, lambda: leads[0])
    assert fronts.find(TP) is bench.front
    leads[0] = False
    assert fronts.find(TP) is None
    fronts.remove(TP)
    leads[0] = True
    assert fronts.find(TP) is None
    fronts.add(TP, HalfBench().lead(), lambda: True)
    assert fronts.find(TP) is None, "its records are not read yet"
