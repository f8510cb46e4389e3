"""Metrics in the row of a broker, as the cluster monitor stores them in JSON columns. Types of values only."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class StoredApi(TypedDict):
    """The requests of one API. `errors`: per second, by error code as a text."""

    name: str
    requests_per_s: float
    p50_ms: float | None
    p99_ms: float | None
    greatest_ms: float
    errors: dict[str, float]


class StoredRejectedRequests(TypedDict):
    """The rejected requests of one reason. `total`: since the start of the broker."""

    reason: str
    total: int
    per_s: float


class StoredLogin(TypedDict):
    user: str
    mechanism: str
    failure: str
    count: int


class StoredRejectedClient(TypedDict):
    """A client that a broker rejects. A row of an earlier version has no `logins`."""

    principal: str
    host: str
    client_id: str
    reason: str
    per_min: float
    since_ms: int
    operation: str
    resource_type: str
    resource_name: str
    logins: NotRequired[list[StoredLogin]]
