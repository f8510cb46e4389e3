"""Metrics of requests by API, like Kafka's RequestMetrics: a histogram of total times, the maximum time, and errors by code.

The total time is from the decoded request to its response in the connection's output, and includes waiting (a Fetch for records, a Produce for
replicas). As in Kafka, the Fetch of a follower has metrics of its own. Counters only grow, so two readings give the interval between them. Invariant: the
number of counters is limited by the APIs, the buckets and the error codes. Does not contain: who reads them.
"""

from __future__ import annotations

from collections.abc import Iterable

from brokerd.cluster.request_buckets import BOUNDS_S
from brokerd.net.rejections import Rejections
from brokerd.wire.apis import APIS, ApiKey
from brokerd.wire.response_errors import CountErrors, error_counter

WINDOW_MS = 60_000
"""Milliseconds between two rotations of the maximum time, which therefore covers the last one to two minutes."""

FETCH_CONSUMER, FETCH_FOLLOWER = "FetchConsumer", "FetchFollower"
"""Kafka's names for the two kinds of Fetch requests."""


class ApiMetrics:
    """`counts` are numbers of requests by total time, in the buckets of `request_buckets`. `sum_s` and `max_s` are the sum and the maximum of the total times
    in seconds. `errors` is {code: number}."""

    __slots__ = (
        "_max_before_s",
        "count_errors",
        "counts",
        "errors",
        "max_s",
        "name",
        "of_followers",
        "rejections",
        "sum_s",
    )

    def __init__(self, name: str, count_errors: CountErrors, rejections: Rejections) -> None:
        self.name, self.count_errors, self.rejections = name, count_errors, rejections
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = self.max_s = self._max_before_s = 0.0
        self.errors: dict[int, int] = {}
        self.of_followers: ApiMetrics | None = None
        """The metrics of the same API for requests of other brokers, if these are counted separately."""

    @property
    def greatest_s(self) -> float:
        """The maximum total time of the last one to two windows."""
        return max(self.max_s, self._max_before_s)

    def rotate(self) -> None:
        self._max_before_s, self.max_s = self.max_s, 0.0


class RequestMetrics:
    """The metrics of all APIs that the broker serves."""

    def __init__(self, api_keys: Iterable[int] = (), rejections: Rejections | None = None) -> None:
        rejections = rejections or Rejections()
        self.by_key: dict[int, ApiMetrics] = {}
        for key in api_keys:
            api = APIS[ApiKey(key)]
            count_errors = error_counter(api.response)
            metrics = self.by_key[key] = ApiMetrics(api.name, count_errors, rejections)
            if key == ApiKey.FETCH:
                metrics.name = FETCH_CONSUMER
                metrics.of_followers = ApiMetrics(FETCH_FOLLOWER, count_errors, rejections)

    def all(self) -> list[ApiMetrics]:
        apart = [m.of_followers for m in self.by_key.values() if m.of_followers is not None]
        return sorted([*self.by_key.values(), *apart], key=lambda m: m.name)

    def rotate(self) -> None:
        """Called every WINDOW_MS."""
        for metrics in self.all():
            metrics.rotate()
