"""The undecided half messages of a front partition, described by its leader.

Invariant: only a leader that knows all records of the partition answers. Does not contain: authorization (`fetch`), the messages (`delivery`).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from brokerd.apis.fetch_response import unauthorized_topics
from brokerd.apis.fetch_sessions import PartitionRequest
from brokerd.delivery.front_log import FrontTarget
from brokerd.delivery.half_front import HalfFront
from brokerd.delivery.led_fronts import LedFronts
from brokerd.wire import versioned
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest, FetchResponse
from brokerd.wire.messages.half_messages import VERSION, HalfMessagesRequest, HalfMessagesResponse

MESSAGES_MAX = 1_000
"""Maximum number of messages in one response."""


class HalfMessagesServer:
    def __init__(self, fronts: LedFronts[HalfFront]) -> None:
        self._fronts = fronts

    def respond(
        self, partition_requests: Iterable[PartitionRequest], unauthorized: Iterable[FetchRequest.FetchTopic]
    ) -> FetchResponse:
        topics = [
            FetchResponse.FetchableTopicResponse(topic=p.topic_name, topic_id=p.topic_id, partitions=[self._part(p)])
            for p in partition_requests
        ]
        return FetchResponse(responses=[*topics, *unauthorized_topics(list(unauthorized))])

    def _part(self, partition_request: PartitionRequest) -> FetchResponse.PartitionData:
        data = FetchResponse.PartitionData(
            partition_index=partition_request.requested.partition,
            error_code=partition_request.error,
            high_watermark=-1,
            records=b"",
        )
        if partition_request.error or partition_request.replica is None:
            return data
        try:
            query = versioned.decode(HalfMessagesRequest, partition_request.requested.half_messages, VERSION)
        except versioned.UnknownVersion:
            data.error_code = ErrorCode.UNSUPPORTED_VERSION
            return data
        except (ValueError, RecursionError):
            data.error_code = ErrorCode.INVALID_REQUEST
            return data
        front = self._fronts.find(partition_request.replica.tp)
        if front is None:
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return data
        data.half_messages = versioned.encode(build_response(front, query), VERSION)
        return data


def build_response(front: HalfFront, query: HalfMessagesRequest) -> HalfMessagesResponse:
    found = (u for u in front.undecided_in_order() if u.offset >= query.from_offset)
    most = min(max(0, query.messages_max), MESSAGES_MAX)
    return HalfMessagesResponse(
        messages=[
            HalfMessagesResponse.Message(
                half_id=u.half_id, offset=u.offset, appended_ms=u.at_ms, checks=u.checks, expiring=u.expiring
            )
            for u in islice(found, most)
        ],
        undecided=front.undecided,
        delivered=front.delivered,
        expired=front.delivered_to(FrontTarget.EXPIRED),
        checks_sent=front.checks_sent,
        blocked=front.blocked or 0,
    )
