"""ElectLeaders (KIP-460), forwarded to the controller.

Invariant: each partition in the request gets a result. A request without partitions means all partitions. The response to such a request contains only the
partitions that need an election. Does not contain: the election rules (`cluster/election`).
"""

from __future__ import annotations

from collections.abc import Callable

from brokerd.apis.forwarding import Forwarding, Results, SendToController
from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import MESSAGE, AuthHelper
from brokerd.cluster.image import Image
from brokerd.cluster.model import PartitionState
from brokerd.cluster.requests import ElectionResult, ElectLeaders, ItemResult, PartitionsToElect
from brokerd.net.request import Handler, Request
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ElectLeadersRequest, ElectLeadersResponse

PREFERRED, UNCLEAN = 0, 1
SENTENCES: dict[int, str] = {
    ErrorCode.ELECTION_NOT_NEEDED: "the election is not needed: the partition has this leader already",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "the preferred leader is not alive and in sync",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "no eligible leader is available",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the partition does not exist",
}


class ElectionsApi:
    def __init__(self, image: Callable[[], Image], send_to_controller: SendToController, auth: AuthHelper) -> None:
        self._image, self._forward, self._auth = image, Forwarding(send_to_controller), auth

    def handlers(self) -> dict[int, Handler]:
        return {ApiKey.ELECT_LEADERS: self.elect}

    def elect(self, request: Request) -> None:
        body: ElectLeadersRequest = request.body
        if not self._auth.authorize(request, Operation.ALTER, Resource.CLUSTER):
            request.reply(_unauthorized_response(body))
            return
        unclean = request.header.api_version >= 1 and body.election_type == UNCLEAN
        if request.header.api_version >= 1 and body.election_type not in (PREFERRED, UNCLEAN):
            request.reply(ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST))
            return
        requested: dict[str, list[int]] = {}
        for t in (
            self._partitions_in_need_of_election(unclean) if body.topic_partitions is None else body.topic_partitions
        ):
            requested.setdefault(t.topic, []).extend(t.partitions)
        items = tuple(PartitionsToElect(topic, tuple(sorted(set(indexes)))) for topic, indexes in requested.items())

        def on_results(results: Results) -> None:
            request.reply(
                ElectLeadersResponse(
                    replica_election_results=[
                        ElectLeadersResponse.ReplicaElectionResult(
                            topic=i.name, partition_result=_partition_results(i, r)
                        )
                        for i, r in zip(items, results, strict=True)
                    ]
                )
            )

        count = sum(len(indexes) for indexes in requested.values())
        payload = ElectLeaders(principal=request.principal, items=items, unclean=unclean)
        self._forward(payload, body.timeout_ms, on_results, count)

    def _partitions_in_need_of_election(self, unclean: bool) -> list[ElectLeadersRequest.TopicPartitions]:
        image = self._image()

        def needs(state: PartitionState) -> bool:
            return not image.alive(state.leader) if unclean else state.leader != state.replicas[0]

        found = []
        for topic in image.topics.values():
            if topic.ready and (indexes := [i for i, state in topic.partitions.items() if needs(state)]):
                found.append(ElectLeadersRequest.TopicPartitions(topic=topic.name, partitions=indexes))
        return found


def _unauthorized_response(body: ElectLeadersRequest) -> ElectLeadersResponse:
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    result = ElectLeadersResponse.PartitionResult
    return ElectLeadersResponse(
        error_code=denied,
        replica_election_results=[
            ElectLeadersResponse.ReplicaElectionResult(
                topic=t.topic,
                partition_result=[
                    result(partition_id=i, error_code=denied, error_message=MESSAGE) for i in t.partitions
                ],
            )
            for t in body.topic_partitions or ()
        ],
    )


def _partition_results(item: PartitionsToElect, result: ItemResult) -> list[ElectLeadersResponse.PartitionResult]:
    if isinstance(result, ElectionResult) and not result.error:
        verdicts = [(i, error, SENTENCES.get(error) if error else None) for i, error in result.partitions]
    else:
        verdicts = [(i, result.error, result.message) for i in item.partitions]
    return [
        ElectLeadersResponse.PartitionResult(partition_id=i, error_code=error, error_message=message)
        for i, error, message in verdicts
    ]
