"""Why a share group makes no progress."""

from __future__ import annotations

from controlplane.domain.lag import LagStatus
from controlplane.domain.share_lag import STALL_STATUSES, ShareStall, stall_of


def test_the_cause_follows_from_status_and_assignment() -> None:
    assert stall_of(LagStatus.STOPPED, 0) is ShareStall.NO_MEMBERS
    assert stall_of(LagStatus.STALLED, 0) is ShareStall.NOT_ASSIGNED
    assert stall_of(LagStatus.STALLED, 2) is ShareStall.NO_PROGRESS
    assert {s for s in LagStatus if stall_of(s, 1) is not None} == set(STALL_STATUSES)
