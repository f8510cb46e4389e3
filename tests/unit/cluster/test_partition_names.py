"""Names of partitions."""

from __future__ import annotations

import pytest

from brokerd.cluster.partition_names import split_partition_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-3", ("orders", 3)),
        ("team-orders.v2-10", ("team-orders.v2", 10)),
        ("orders", None),
        ("-3", None),
        ("orders-", None),
        ("orders-x", None),
        ("orders--1", ("orders-", 1)),
        ("orders-٣", None),
        ("orders-12345678901", None),
        ("", None),
    ],
)
def test_a_name_has_a_topic_and_a_number(name: str, expected: tuple[str, int] | None) -> None:
    assert split_partition_name(name) == expected
