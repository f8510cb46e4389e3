"""The journal of a front partition: its bytes, and the state that a new leader reads from it."""

from __future__ import annotations

import pytest

from brokerd.delivery.journal import (
    SEQUENCES,
    Confirmation,
    InvalidEntry,
    ProducerIdentity,
    TransferEntry,
    decode,
    encode,
    replay,
)
from tests.unit.delivery.test_transfer import PRODUCER


def test_bytes_of_an_entry_are_read_back() -> None:
    for entry in (TransferEntry(ProducerIdentity(2**40, 3), 2**31 - 1, (5, 2**50)), Confirmation(PRODUCER, 9)):
        assert decode(encode(entry)) == entry


def test_entries_of_a_new_producer_epoch_replace_the_lost_ones() -> None:
    later = ProducerIdentity(PRODUCER.producer_id, 1)
    lost = [TransferEntry(PRODUCER, 4, (1, 2)), TransferEntry(PRODUCER, 6, (3,))]
    repeated = [TransferEntry(later, 0, (1, 2)), TransferEntry(later, 2, (3,))]
    state = replay([*lost, *repeated], 0, 5)
    assert state.unconfirmed == tuple(repeated)
    assert (state.producer, state.next_sequence) == (later, 3)


@pytest.mark.parametrize("data", [b"", b"\0" * 20, encode(Confirmation(PRODUCER, 1)) + b"\0", b"\0\1" + b"\0" * 19])
def test_other_bytes_are_rejected(data: bytes) -> None:
    with pytest.raises(InvalidEntry):
        decode(data)


def test_sequence_numbers_continue_with_zero_after_their_maximum() -> None:
    entry = TransferEntry(PRODUCER, SEQUENCES - 2, (5, 6, 7))
    assert entry.next_sequence == 1
    assert decode(encode(entry)) == entry


def test_an_empty_journal_has_no_producer() -> None:
    state = replay([], 0, 5)
    assert (state.producer, state.next_sequence, state.unconfirmed, state.transferred) == (None, 0, (), frozenset())
