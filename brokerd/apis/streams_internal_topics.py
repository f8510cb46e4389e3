"""Creation of the internal topics of streams groups (KIP-1071): repartition and changelog topics that do not exist yet.

Invariants: the creation of a topic is requested once until its result is there, and not again within a pause after a failure. A heartbeat does not wait
for it. Does not decide which topics are missing (`brokerd/coordinator/streams_group/configured_topology.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from brokerd.apis.forwarding import Forwarding, Results, SendToController
from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import AuthHelper
from brokerd.cluster.model import Now
from brokerd.cluster.requests import CreateTopics, NewTopic
from brokerd.coordinator.streams_group.topology import InternalTopic
from brokerd.net.request import Request
from brokerd.wire.errors import ErrorCode

TIMEOUT_MS = 30_000
RETRY_MS = 5_000
"""Pause after a failed creation. The members send heartbeats at about this interval."""
FAILURES_MAX = 10_000
"""Maximum number of failed creations that are remembered. Without it, members with changing topologies could fill the memory."""


class StreamsInternalTopics:
    def __init__(
        self,
        values: Mapping[str, object],
        send_to_controller: SendToController,
        clock: Callable[[], Now],
        auth: AuthHelper,
    ) -> None:
        self._values, self._clock, self._auth = values, clock, auth
        self._forward = Forwarding(send_to_controller)
        self._requested: set[str] = set()
        self._failures: dict[str, tuple[int, str]] = {}
        """{topic: (time of the next attempt (mono ms), reason)}."""

    def create(self, request: Request, missing: Sequence[InternalTopic]) -> str | None:
        """Request the creation of the topics. Returns the reason why they cannot be created, or None if it is not known yet."""
        if not missing:
            return None
        denied = self._unauthorized_topics(request, missing)
        if denied:
            return f"the member is not authorized to create {', '.join(denied)}"
        now_ms = self._clock().mono_ms
        due = [t for t in missing if t.name not in self._requested and self._failures.get(t.name, (0, ""))[0] <= now_ms]
        reasons = [f"{t.name}: {self._failures[t.name][1]}" for t in missing if t.name in self._failures]
        if due:
            self._request(request.principal, due)
        return f"creation failed: {'; '.join(reasons)}" if reasons else None

    def _unauthorized_topics(self, request: Request, missing: Sequence[InternalTopic]) -> list[str]:
        """The topics that the member may not create. CREATE on the cluster includes all topics."""
        if self._auth.authorize(request, Operation.CREATE, Resource.CLUSTER):
            return []
        _, unauthorized = self._auth.partition_by_authorized(
            request, Operation.CREATE, Resource.TOPIC, missing, lambda t: t.name
        )
        return [t.name for t in unauthorized]

    def _request(self, principal: str, topics: Sequence[InternalTopic]) -> None:
        self._requested.update(t.name for t in topics)

        def done(results: Results) -> None:
            self._requested.difference_update(t.name for t in topics)
            if len(self._failures) >= FAILURES_MAX:
                self._failures.clear()
            for topic, result in zip(topics, results, strict=True):
                if result.error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    self._failures.pop(topic.name, None)
                else:
                    reason = result.message or ErrorCode(result.error).name
                    self._failures[topic.name] = (self._clock().mono_ms + RETRY_MS, reason)

        default_factor = self._values["default.replication.factor"]
        assert isinstance(default_factor, int)
        items = tuple(
            NewTopic(t.name, t.partitions, t.replication_factor or default_factor, configs=dict(t.configs))
            for t in topics
        )
        payload = CreateTopics(principal=principal, items=items)
        self._forward(payload, TIMEOUT_MS, done, sum(t.partitions for t in topics))
