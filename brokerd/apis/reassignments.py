"""Reassignments, as Kafka's tools and clients ask for them (KIP-455): where partitions shall be, what is under way, and back again.

Laws: nothing is decided here: each partition is forwarded to the controller and answered when the metadata log holds its order; what is
under way is read from the image. Called by `dispatch`. Must not come in: moves, which the control plane makes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from brokerd.apis.forwarding import Ask, Forwarding
from brokerd.cluster.image import Image
from brokerd.cluster.model import TopicState
from brokerd.dispatch import Handler, Request
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

NO_FACTOR_CHANGE = "allow_replication_factor_change is false, and this would change it"


class ReassignmentsApi:
    def __init__(self, image: Callable[[], Image], ask: Ask) -> None:
        self._image, self._forward = image, Forwarding(ask)

    def handlers(self) -> dict[int, Handler]:
        return {ApiKey.ALTER_PARTITION_REASSIGNMENTS: self.alter, ApiKey.LIST_PARTITION_REASSIGNMENTS: self.list}

    def alter(self, request: Request) -> None:
        body: AlterPartitionReassignmentsRequest = request.body
        items: list[dict[str, Any]] = []
        refused: dict[tuple[str, int], tuple[int, str]] = {}
        for t in body.topics:
            for p in t.partitions:
                if not body.allow_replication_factor_change and self._changes_factor(
                    t.name, p.partition_index, p.replicas
                ):
                    refused[t.name, p.partition_index] = (ErrorCode.INVALID_REPLICATION_FACTOR, NO_FACTOR_CHANGE)
                    continue
                items.append(
                    {
                        "name": f"{t.name}-{p.partition_index}",
                        "topic": t.name,
                        "partition": p.partition_index,
                        "replicas": None if p.replicas is None else list(p.replicas),
                    }
                )

        def answered(results: Sequence[Mapping[str, Any]]) -> None:
            told = {
                (i["topic"], i["partition"]): (r["error"], r.get("message"))
                for i, r in zip(items, results, strict=True)
            }
            r = AlterPartitionReassignmentsResponse
            request.reply(
                r(
                    allow_replication_factor_change=body.allow_replication_factor_change,
                    responses=[
                        r.ReassignableTopicResponse(
                            name=t.name,
                            partitions=[
                                r.ReassignablePartitionResponse(
                                    partition_index=p.partition_index, error_code=code, error_message=text or None
                                )
                                for p in t.partitions
                                for code, text in [{**told, **refused}[t.name, p.partition_index]]
                            ],
                        )
                        for t in body.topics
                    ],
                )
            )

        self._forward(request.principal, "alter_reassignments", items, False, body.timeout_ms, answered)

    def _changes_factor(self, topic: str, index: int, replicas: Sequence[int] | None) -> bool:
        state = self._image().topic_named(topic)
        known = state.partitions.get(index) if state is not None else None
        return known is not None and replicas is not None and len(known.target) != len(replicas)

    def list(self, request: Request) -> None:
        body: ListPartitionReassignmentsRequest = request.body
        image = self._image()
        if body.topics is None:
            wanted: dict[str, list[int]] = {t.name: list(t.partitions) for t in image.topics.values() if t.ready}
        else:
            wanted = {t.name: list(t.partition_indexes) for t in body.topics}
        found = [(name, _under_way(image.topic_named(name), indexes)) for name, indexes in sorted(wanted.items())]
        r = ListPartitionReassignmentsResponse
        request.reply(r(topics=[r.OngoingTopicReassignment(name=n, partitions=parts) for n, parts in found if parts]))


def _under_way(
    topic: TopicState | None, indexes: Sequence[int]
) -> list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment]:
    states = [(i, topic.partitions[i]) for i in sorted(set(indexes)) if i in topic.partitions] if topic else []
    return [
        ListPartitionReassignmentsResponse.OngoingPartitionReassignment(
            partition_index=i,
            replicas=list(s.replicas),
            adding_replicas=list(s.adding),
            removing_replicas=list(s.removing),
        )
        for i, s in states
        if s.reassigning
    ]
