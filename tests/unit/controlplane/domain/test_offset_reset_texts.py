"""Reasons and results of offset resets."""

from __future__ import annotations

from controlplane.domain.offset_reset_texts import NAMED_MAX, active_reason, names_of


def test_the_members_of_an_active_group_are_counted() -> None:
    assert active_reason("billing", 0).startswith("Group 'billing' is active; nothing was written.")
    assert "(1 member);" in active_reason("billing", 1) and "(3 members);" in active_reason("billing", 3)


def test_few_partitions_are_named_and_the_others_are_counted() -> None:
    keys = [("orders", index) for index in range(NAMED_MAX + 2)]
    assert names_of(keys[:2]) == "orders-0, orders-1"
    assert names_of(keys).endswith(f"orders-{NAMED_MAX - 1} and 2 more")
