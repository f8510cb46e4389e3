"""The choice between the Python source of the walk and its compiled module."""

from __future__ import annotations

from brokerd.wire import record_walk, record_walks, records
from brokerd.wire.compiled import find_compiled
from tests.unit.storage.test_batch_validation import RawRecord, batch


def test_the_compiled_walk_is_used_for_batches_where_it_was_built() -> None:
    assert (record_walks.walk is not record_walk.walk) == record_walks.COMPILED
    assert (find_compiled(record_walk) is not None) == record_walks.COMPILED
    assert (record_walks.RUNS is None) == record_walks.COMPILED
    ((_, header),) = records.check(batch(RawRecord()))
    assert header.record_count == 1
