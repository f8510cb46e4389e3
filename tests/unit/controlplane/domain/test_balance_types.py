"""Values of a rebalance proposal."""

from __future__ import annotations

from controlplane.domain.balance_types import Balance, PlacementChange


def test_a_new_order_copies_nothing_and_an_unknown_size_counts_as_zero() -> None:
    order = PlacementChange("t", 0, (1, 2), (2, 1), 100)
    copied, unknown = PlacementChange("t", 1, (1, 2), (3, 4), 100), PlacementChange("t", 2, (1,), (2,), None)
    assert [c.copies for c in (order, copied, unknown)] == [0, 2, 1]
    assert Balance((order, copied, unknown), (), (), (), ()).bytes_to_copy == 200
