"""The health of a log directory's disk, as brokers report it and the control plane reads it. Does not contain the measurement."""

from __future__ import annotations

from enum import IntEnum


class DiskHealth(IntEnum):
    """The numbers are used in the protocol between brokers and control plane."""

    OK = 0
    SLOW = 1
    """Several consecutive writes took longer than `weir.log.dir.slow.ms`."""
    HUNG = 2
    """A write took longer than `weir.log.dir.hung.ms`. The directory is offline until the next start of the broker."""
