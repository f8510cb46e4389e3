"""The auxiliary object: its bytes."""

from __future__ import annotations

import pytest

from brokerd.remote.auxiliary import Auxiliary
from brokerd.storage.index import SparseIndex
from brokerd.storage.transaction_index import AbortedTxn


def test_an_auxiliary_object_is_the_same_after_it_was_stored() -> None:
    index = SparseIndex()
    index.add(0, 0, 5)
    index.add(7, 4_000, 9)
    stored = Auxiliary(
        ((1, 0), (3, 7)), 9, [[], []], [[[7, 0, 0, False, 5, [[0, 1, 2, 3]]]], []], (AbortedTxn(7, 1, 5, 6),), index
    )
    found = Auxiliary.from_bytes(stored.to_bytes())
    assert (found.epochs, found.max_timestamp, found.aborted) == (stored.epochs, 9, stored.aborted)
    assert found.producers_after == stored.producers_after
    assert (found.index.offsets, found.index.positions, found.index.times) == (
        index.offsets,
        index.positions,
        index.times,
    )


@pytest.mark.parametrize("data", [b"", b"x", Auxiliary((), 0, [], [], (), SparseIndex()).to_bytes()[:-4]])
def test_other_bytes_are_rejected(data: bytes) -> None:
    with pytest.raises(ValueError, match="invalid auxiliary object"):
        Auxiliary.from_bytes(data)
