"""The estimated price of stored bytes per month. Pure. Does not contain the prices (`WEIR_PRICE_DISK_GB_MONTH`, `WEIR_PRICE_REMOTE_GB_MONTH`)."""

from __future__ import annotations

from dataclasses import dataclass

GB = 1_000_000_000
"""Bytes per gigabyte in the price lists of storage providers."""


@dataclass(frozen=True, slots=True)
class StoragePrices:
    """Prices per GB (10^9 bytes) and month; None: unknown. `currency` is a label."""

    disk: float | None = None
    remote: float | None = None
    currency: str = ""


@dataclass(frozen=True, slots=True)
class StorageCost:
    """Cost per month, for the current sizes. `disk`: all replicas. A part without a price is None, and `total` is the sum of the known parts."""

    disk: float | None
    remote: float | None
    total: float
    currency: str

    @property
    def total_of_shown(self) -> float:
        """The sum of the parts as a page rounds them, so that the shown parts add up."""
        return round(self.disk or 0.0, 2) + round(self.remote or 0.0, 2)


def monthly_cost(replica_bytes: int | None, remote_bytes: int, prices: StoragePrices) -> StorageCost | None:
    """`replica_bytes`: on the disks of all brokers, None: unknown. Returns None if nothing has a price. Requests and traffic are not included."""
    disk = None if prices.disk is None or replica_bytes is None else prices.disk * replica_bytes / GB
    remote = None if prices.remote is None else prices.remote * remote_bytes / GB
    if disk is None and remote is None:
        return None
    return StorageCost(disk, remote, (disk or 0.0) + (remote or 0.0), prices.currency)
