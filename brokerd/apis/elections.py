"""ElectLeaders (KIP-460): asked of the controller, which alone elects.

Law: each partition that was named gets a verdict; where all are meant, only those that need one. Must not come in: who may lead (the controller's `elections`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from brokerd.apis.forwarding import Ask, Forwarding
from brokerd.cluster.image import Image
from brokerd.cluster.model import PartitionState
from brokerd.cluster.znodes import ELECT
from brokerd.dispatch import Handler, Request
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ElectLeadersRequest, ElectLeadersResponse

PREFERRED, UNCLEAN = 0, 1
SENTENCES = {
    ErrorCode.ELECTION_NOT_NEEDED: "the partition is led as it was asked for already",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "the first of its replicas is not alive and in sync",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "none of its replicas is alive",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such partition",
}


class ElectionsApi:
    def __init__(self, image: Callable[[], Image], ask: Ask) -> None:
        self._image, self._forward = image, Forwarding(ask)

    def handlers(self) -> dict[int, Handler]:
        return {ApiKey.ELECT_LEADERS: self.elect}

    def elect(self, request: Request) -> None:
        body: ElectLeadersRequest = request.body
        unclean = request.header.api_version >= 1 and body.election_type == UNCLEAN
        if request.header.api_version >= 1 and body.election_type not in (PREFERRED, UNCLEAN):
            request.reply(ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST))
            return
        wanted: dict[str, list[int]] = {}
        for t in self._everywhere(unclean) if body.topic_partitions is None else body.topic_partitions:
            wanted.setdefault(t.topic, []).extend(t.partitions)
        items: list[dict[str, Any]] = [
            {"name": topic, "partitions": sorted(set(indexes))} for topic, indexes in wanted.items()
        ]

        def answered(results: Sequence[Mapping[str, Any]]) -> None:
            request.reply(
                ElectLeadersResponse(
                    replica_election_results=[
                        ElectLeadersResponse.ReplicaElectionResult(topic=i["name"], partition_result=_told(i, r))
                        for i, r in zip(items, results, strict=True)
                    ]
                )
            )

        count = sum(len(indexes) for indexes in wanted.values())
        self._forward(
            request.principal, ELECT, items, False, body.timeout_ms, answered, count, more={"unclean": unclean}
        )

    def _everywhere(self, unclean: bool) -> list[ElectLeadersRequest.TopicPartitions]:
        image = self._image()

        def needs(state: PartitionState) -> bool:
            return not image.alive(state.leader) if unclean else state.leader != state.replicas[0]

        found = []
        for topic in image.topics.values():
            if topic.ready and (indexes := [i for i, state in topic.partitions.items() if needs(state)]):
                found.append(ElectLeadersRequest.TopicPartitions(topic=topic.name, partitions=indexes))
        return found


def _told(item: Mapping[str, Any], result: Mapping[str, Any]) -> list[ElectLeadersResponse.PartitionResult]:
    if result["error"]:
        verdicts = [(i, result["error"], result.get("message")) for i in item["partitions"]]
    else:
        verdicts = [(i, error, SENTENCES.get(error) if error else None) for i, error in result["partitions"]]
    return [
        ElectLeadersResponse.PartitionResult(partition_id=i, error_code=error, error_message=message)
        for i, error, message in verdicts
    ]
