"""Which truncations a broker keeps."""

from __future__ import annotations

from uuid import UUID

from brokerd.cluster.model import TopicPartition
from brokerd.replication.truncations import OTHERS_MAX, Truncation, Truncations

TP = TopicPartition(UUID(int=7), 0)


def truncation(first: int, end: int, high_watermark: int) -> Truncation:
    return Truncation(TP, first, end, high_watermark, 3, 1_000)


def test_a_truncation_that_deletes_nothing_is_not_kept() -> None:
    kept = Truncations()
    kept.add(truncation(5, 5, 4))
    assert not list(kept)


def test_ordinary_truncations_do_not_displace_a_loss_of_acknowledged_records() -> None:
    kept = Truncations()
    loss = truncation(5, 9, 8)
    kept.add(loss)
    for n in range(OTHERS_MAX + 1):
        kept.add(truncation(10 + n, 20 + n, 10 + n))
    found = list(kept)
    assert len(found) == 1 + OTHERS_MAX and found[0] is loss
    assert (found[1].first_offset, found[-1].first_offset) == (11, 110), "the oldest one is dropped"
