"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455).

Invariants: each partition is forwarded to the controller and answered when the metadata log has the result. Reassignments in progress come
from the image. Does not contain: the control plane's moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from brokerd.apis.forwarding import Forwarding, Results, SendToController
from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import AuthHelper
from brokerd.cluster.image import Image
from brokerd.cluster.model import TopicState
from brokerd.cluster.requests import AlterReassignments, NewReassignment
from brokerd.net.request import Handler, Request
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

NO_FACTOR_CHANGE = "the replication factor would change, and allow_replication_factor_change is false"


class ReassignmentsApi:
    def __init__(self, image: Callable[[], Image], send_to_controller: SendToController, auth: AuthHelper) -> None:
        self._image, self._forward, self._auth = image, Forwarding(send_to_controller), auth

    def handlers(self) -> dict[int, Handler]:
        return {ApiKey.ALTER_PARTITION_REASSIGNMENTS: self.alter, ApiKey.LIST_PARTITION_REASSIGNMENTS: self.list}

    def alter(self, request: Request) -> None:
        body: AlterPartitionReassignmentsRequest = request.body
        if not self._auth.authorize(request, Operation.ALTER, Resource.CLUSTER):
            request.reply(AlterPartitionReassignmentsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
            return
        items: list[NewReassignment] = []
        rejected: dict[tuple[str, int], tuple[int, str]] = {}
        for topic in body.topics:
            for partition in topic.partitions:
                if not body.allow_replication_factor_change and self._changes_factor(
                    topic.name, partition.partition_index, partition.replicas
                ):
                    rejected[topic.name, partition.partition_index] = (
                        ErrorCode.INVALID_REPLICATION_FACTOR,
                        NO_FACTOR_CHANGE,
                    )
                    continue
                replicas = None if partition.replicas is None else tuple(partition.replicas)
                items.append(
                    NewReassignment(
                        f"{topic.name}-{partition.partition_index}", topic.name, partition.partition_index, replicas
                    )
                )

        def on_results(results: Results) -> None:
            outcome_of = {(i.topic, i.partition): (r.error, r.message) for i, r in zip(items, results, strict=True)}
            response_type = AlterPartitionReassignmentsResponse
            request.reply(
                response_type(
                    allow_replication_factor_change=body.allow_replication_factor_change,
                    responses=[
                        response_type.ReassignableTopicResponse(
                            name=t.name,
                            partitions=[
                                response_type.ReassignablePartitionResponse(
                                    partition_index=p.partition_index, error_code=code, error_message=text or None
                                )
                                for p in t.partitions
                                for code, text in [{**outcome_of, **rejected}[t.name, p.partition_index]]
                            ],
                        )
                        for t in body.topics
                    ],
                )
            )

        payload = AlterReassignments(principal=request.principal, items=tuple(items))
        self._forward(payload, body.timeout_ms, on_results)

    def _changes_factor(self, topic: str, index: int, replicas: Sequence[int] | None) -> bool:
        state = self._image().topic_named(topic)
        known = state.partitions.get(index) if state is not None else None
        return known is not None and replicas is not None and len(known.target) != len(replicas)

    def list(self, request: Request) -> None:
        body: ListPartitionReassignmentsRequest = request.body
        if not self._auth.authorize(request, Operation.DESCRIBE, Resource.CLUSTER):
            request.reply(ListPartitionReassignmentsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
            return
        image = self._image()
        if body.topics is None:
            requested: dict[str, list[int]] = {t.name: list(t.partitions) for t in image.topics.values() if t.ready}
        else:
            requested = {t.name: list(t.partition_indexes) for t in body.topics}
        found = [(name, _in_progress(image.topic_named(name), indexes)) for name, indexes in sorted(requested.items())]
        r = ListPartitionReassignmentsResponse
        request.reply(r(topics=[r.OngoingTopicReassignment(name=n, partitions=parts) for n, parts in found if parts]))


def _in_progress(
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
