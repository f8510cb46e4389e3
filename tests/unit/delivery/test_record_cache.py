"""Records are read by their offsets when they are in the page cache, and forgotten on request."""

from __future__ import annotations

from brokerd.delivery.record_cache import RecordCache
from brokerd.wire import records
from brokerd.wire.records import Record
from tests.unit.delivery.front_bench import Bench


def test_only_the_given_records_are_kept_until_they_are_forgotten() -> None:
    bench = Bench()
    bench.append(records.build([Record(i, 1, None, b"%d" % i) for i in range(4)]))
    cache = RecordCache(bench)
    bench.cold = True
    assert not cache.load([1, 3]) and cache.get(1) is None
    bench.cold = False
    assert cache.load([1, 3])
    assert [(r.value if (r := cache.get(o)) is not None else None) for o in range(4)] == [None, b"1", None, b"3"]
    cache.forget([1])
    assert cache.get(1) is None and cache.get(3) is not None
