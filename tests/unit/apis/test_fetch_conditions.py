"""`classify` returns one condition per situation. Waiting fetches and responses use the same condition."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.apis.fetch_conditions import FetchCondition, classify
from brokerd.cluster.image import Image
from brokerd.cluster.model import ReplicaIncarnation
from brokerd.wire.errors import ErrorCode

FOLLOWER = ReplicaIncarnation(2, 7)


def situation(
    *,
    offset: int = 5,
    epoch: int = -1,
    last_epoch: int = -1,
    awaits_bootstrap: bool = False,
    leads: bool = True,
    offline: str | None = None,
    hosts: tuple[int, ...] = (1, 2, 3),
) -> tuple[Any, Any]:
    """A leader of epoch 4 with records 2 to 9: log start offset 2, local log start offset 2, log end offset 10.
    Records of epoch 3 end at offset 6."""
    epochs = SimpleNamespace(end_offset_for=lambda last: {4: (4, 10), 3: (3, 6)}.get(last, (-1, -1)))
    replica = SimpleNamespace(
        offline_reason=offline,
        leads=leads,
        local_log_start_offset=2,
        core=SimpleNamespace(
            leader_epoch=4, state=SimpleNamespace(hosts=hosts, isr_ids=(1,), isr=()), role=None, broker_id=1
        ),
        log=SimpleNamespace(start_offset=2, end_offset=10, last_epoch=4, epochs=epochs),
    )
    requested = SimpleNamespace(
        fetch_offset=offset,
        current_leader_epoch=epoch,
        last_fetched_epoch=last_epoch,
        awaits_bootstrap=awaits_bootstrap,
    )
    return SimpleNamespace(requested=requested, may_follow=False), replica


@pytest.mark.parametrize(
    ("given", "follower", "condition"),
    [
        ({}, None, FetchCondition.READABLE),
        ({"offset": 8}, None, FetchCondition.AT_END),
        ({"offset": 8}, FOLLOWER, FetchCondition.READABLE),
        ({"offset": 10}, FOLLOWER, FetchCondition.AT_END),
        ({"offset": 1}, None, FetchCondition.HISTORY),
        ({"last_epoch": 3, "offset": 7}, FOLLOWER, FetchCondition.DIVERGING),
        ({"last_epoch": 3, "offset": 6}, FOLLOWER, FetchCondition.READABLE),
        ({"last_epoch": 1, "offset": 7}, FOLLOWER, FetchCondition.DIVERGING),
        ({"awaits_bootstrap": True}, FOLLOWER, FetchCondition.BOOTSTRAP),
    ],
)
def test_each_fetch_state_has_its_condition(
    given: dict[str, Any], follower: ReplicaIncarnation | None, condition: FetchCondition
) -> None:
    send_request, replica = situation(**given)
    limit = 10 if follower is not None else 8
    found = classify(send_request, replica, limit, follower, rack=None, image=Image())
    assert (found.condition, found.error) == (condition, ErrorCode.NONE)


@pytest.mark.parametrize(
    ("given", "follower", "error"),
    [
        ({"epoch": 3}, None, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 5}, None, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"leads": False}, None, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"offline": "EIO"}, None, ErrorCode.KAFKA_STORAGE_ERROR),
        ({"offset": 11}, None, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"hosts": (1, 3)}, FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"offset": 1, "offline": "EIO"}, None, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_errors_come_first(given: dict[str, Any], follower: ReplicaIncarnation | None, error: ErrorCode) -> None:
    send_request, replica = situation(**given)
    found = classify(send_request, replica, 8, follower, rack=None, image=Image())
    assert (found.condition, found.error) == (FetchCondition.ERROR, error)


def test_a_diverging_epoch_has_its_end_offset_in_versions_that_support_it() -> None:
    send_request, replica = situation(last_epoch=3, offset=7)
    assert classify(send_request, replica, 10, FOLLOWER, rack=None, image=Image()).diverging == (3, 6)
    old = classify(send_request, replica, 10, FOLLOWER, rack=None, image=Image(), knows_divergence=False)
    assert old.condition is FetchCondition.READABLE
