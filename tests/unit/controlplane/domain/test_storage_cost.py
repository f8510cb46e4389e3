"""The price of stored bytes: replicas count each, remote bytes once, and a part without a price is unknown."""

from __future__ import annotations

import pytest

from controlplane.domain.storage_cost import GB, StorageCost, StoragePrices, monthly_cost


@pytest.mark.parametrize(
    ("prices", "replica_bytes", "cost"),
    [
        (StoragePrices(), 4 * GB, None),
        (StoragePrices(0.5, 0.25, "EUR"), 4 * GB, StorageCost(2.0, 2.5, 4.5, "EUR")),
        (StoragePrices(disk=0.5), 4 * GB, StorageCost(2.0, None, 2.0, "")),
        (StoragePrices(remote=0.25), 4 * GB, StorageCost(None, 2.5, 2.5, "")),
        (StoragePrices(disk=0.5), None, None),
    ],
)
def test_cost_per_month(prices: StoragePrices, replica_bytes: int | None, cost: StorageCost | None) -> None:
    assert monthly_cost(replica_bytes, 10 * GB, prices) == cost


def test_the_shown_parts_add_up() -> None:
    """A page showed 9.93, of disks 0.46 and remote 9.48."""
    assert StorageCost(0.455, 9.476, 9.931, "USD").total_of_shown == pytest.approx(round(0.455, 2) + 9.48)
    assert StorageCost(None, 2.506, 2.506, "").total_of_shown == pytest.approx(2.51)
