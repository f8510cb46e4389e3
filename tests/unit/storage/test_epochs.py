"""Leader epochs and their end offsets."""

from __future__ import annotations

import pytest

from brokerd.storage.epochs import EpochCache


def cache(*entries: tuple[int, int], end: int = 100) -> EpochCache:
    out = EpochCache()
    for epoch, offset in entries:
        out.assign(epoch, offset)
    out.log_end = end
    return out


@pytest.mark.parametrize(
    ("requested", "response"),
    [(0, (0, 0)), (1, (1, 10)), (2, (2, 30)), (3, (2, 30)), (5, (5, 100)), (6, (5, 100)), (-1, (-1, -1))],
)
def test_the_end_offset_is_that_of_the_largest_epoch_up_to_the_requested_one(
    requested: int, response: tuple[int, int]
) -> None:
    assert cache((1, 0), (2, 10), (5, 30)).end_offset_for(requested) == response


def test_an_unknown_epoch_has_no_end_offset() -> None:
    assert cache().end_offset_for(3) == (-1, -1)


def test_an_epoch_starts_once_and_never_decreases() -> None:
    assert cache((1, 0), (1, 5), (3, 7), (2, 9)).entries == [(1, 0), (3, 7)]


def test_a_truncation_removes_later_epochs() -> None:
    c = cache((1, 0), (2, 10), (5, 30))
    c.truncate(30)
    assert (c.entries, c.log_end) == ([(1, 0), (2, 10)], 30)


def test_a_raised_log_start_keeps_the_epoch_that_covers_it() -> None:
    c = cache((1, 0), (2, 10), (5, 30))
    c.raise_start(12)
    assert c.entries == [(2, 12), (5, 30)]
    c.raise_start(100)
    assert c.entries == [(5, 100)]
    assert c.epoch_at(100) == 5 and c.epoch_at(20) == -1


def test_the_checkpoint_has_kafkas_format_and_a_malformed_one_is_rejected() -> None:
    c = cache((1, 0), (2, 10))
    assert c.to_text() == "0\n2\n1 0\n2 10\n"
    assert EpochCache.from_text(c.to_text()) == c.entries
    for wrong in ("", "1\n0\n", "0\n3\n1 0\n", "0\n2\n2 0\n1 5\n", "0\n1\nx y\n"):
        with pytest.raises(ValueError):
            EpochCache.from_text(wrong)
