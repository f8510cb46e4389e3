"""Forwarded requests in their stored form: tests write and compare the JSON that brokers and controllers of other versions exchange."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from brokerd.cluster.requests import AnyPayload, ForwardedRequest, Unreadable
from brokerd.cluster.typed_json import encode
from brokerd.cluster.znodes import to_json


def forwarded_request(
    request_id: str, broker_id: int, broker_epoch: int, kind: str, payload: Mapping[str, Any]
) -> ForwardedRequest:
    """The request with this stored payload, as a controller reads it."""
    body = {"broker_id": broker_id, "incarnation": broker_epoch, "kind": kind, "payload": payload}
    request = ForwardedRequest.decode(request_id, to_json(body))
    assert not isinstance(request.payload, Unreadable), request.payload.reason
    return request


def recorder(requested: list[Any]) -> Callable[[AnyPayload, int, Any], None]:
    """An `SendToController` that appends (kind, stored payload, timeout in ms, callback)."""

    def send_request(payload: AnyPayload, timeout_ms: int, done: Any) -> None:
        requested.append((payload.KIND.value, encode(payload), timeout_ms, done))

    return send_request
