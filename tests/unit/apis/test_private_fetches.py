"""Private requests in Fetch: each kind has its own response, and an ordinary fetch has none."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.apis.private_fetches import PrivateFetches
from brokerd.delivery.led_fronts import LedFronts
from brokerd.wire.messages import FetchRequest, FetchResponse
from tests.unit.apis.test_fetch_sessions import FakeRequest, immediate_background_work


def responses(**field: Any) -> list[FetchResponse]:
    part = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=0, **field)
    body = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchRequest.FetchTopic(topic="t", partitions=[part])])
    replies: list[FetchResponse] = []
    private: Any = PrivateFetches(
        None,
        immediate_background_work(),
        lambda: 0,
        LedFronts(),
        LedFronts(),
        None,  # type: ignore[arg-type]
    )
    responded = private.respond(FakeRequest(body, 15, replies.append), [], ())
    assert responded == bool(replies)
    return replies


@pytest.mark.parametrize("kind", ["half_messages", "key_lookup", "delayed_messages"])
def test_each_kind_of_private_request_is_answered_once(kind: str) -> None:
    assert len(responses(**{kind: b"query"})) == 1


def test_an_ordinary_fetch_is_not_answered() -> None:
    assert responses() == []
