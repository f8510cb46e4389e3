"""The reasons why a move waits: their stored form and the causes of which they are made."""

from __future__ import annotations

import pytest

from controlplane.domain import wait_reason
from controlplane.domain.progress import StallCause
from controlplane.domain.wait_reason import Wait, WaitReason


def test_the_stored_form_has_codes_and_numbers() -> None:
    waits = (Wait(WaitReason.NO_SPACE, 3), Wait(WaitReason.QUEUED, 1_001))
    stored = wait_reason.to_json(waits)
    assert stored == [{"reason": "no_space", "partitions": 3}, {"reason": "queued", "partitions": 1_001}]
    assert wait_reason.from_json(stored) == waits
    assert wait_reason.from_json([]) == ()


def test_an_unknown_reason_is_an_error() -> None:
    with pytest.raises(ValueError, match="its turn"):
        wait_reason.from_json([{"reason": "its turn", "partitions": 1}])


def test_each_cause_that_stops_a_copy_is_a_reason_with_the_same_code() -> None:
    assert {reason.value for reason in wait_reason.NEEDS_OPERATOR} == {c.value for c in StallCause} - {
        "will_not_finish"
    }
    assert set(wait_reason.TEXTS) == set(WaitReason)
