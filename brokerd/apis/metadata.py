"""ApiVersions, Metadata and DescribeCluster.

Invariant: responses come from the image alone. The metadata log decides which brokers are alive. The responding broker always counts as alive. Topics that are
not ready are hidden.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from uuid import UUID

from brokerd.apis import features
from brokerd.apis.forwarding import SendToController
from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import AuthHelper
from brokerd.cluster.image import Image
from brokerd.cluster.model import (
    NO_BROKER_EPOCH,
    NO_LEADER,
    BrokerState,
    Endpoint,
    PartitionState,
    TopicState,
    topic_name_problem,
)
from brokerd.cluster.requests import CreateTopics, NewTopic
from brokerd.config.broker import BrokerConfig
from brokerd.net.loop import Loop
from brokerd.net.request import Request
from brokerd.wire import apis
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import (
    ApiVersionsRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataResponse,
)

SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""Client software names and versions that KIP-511 allows. A request with other characters gets INVALID_REQUEST, and the client retries with version 0."""
NO_ID = UUID(int=0)
DESCRIBE, TOPIC = Operation.DESCRIBE, Resource.TOPIC
RequestTopic = MetadataRequest.MetadataRequestTopic
BROKERS = 1
"""The endpoint type of DescribeCluster (KIP-919); 2 means controllers."""
AUTHORIZED_OPERATIONS_UNKNOWN = -(2**31)
NEGATIVE_CACHE_MS = 2_000
"""Time for which the creation of a topic is not requested again after the controller rejected it. So many clients cause only one request."""
NEGATIVE_CACHE_MAX = 10_000
AUTO_CREATION_TIMEOUT_MS = 30_000
AUTO_CREATIONS_PER_SECOND = 50
"""Maximum number of automatic topic creations per second that this broker requests. Above the limit a client receives LEADER_NOT_AVAILABLE and retries."""


class MetadataApi:
    """`send_to_controller` forwards to the active controller. `endpoints`: this broker's own."""

    def __init__(
        self,
        loop: Loop,
        config: BrokerConfig,
        endpoints: Sequence[Endpoint],
        image: Callable[[], Image],
        send_to_controller: SendToController,
        auth: AuthHelper,
    ) -> None:
        self._loop, self._config, self._image, self._send_to_controller, self._auth = (
            loop,
            config,
            image,
            send_to_controller,
            auth,
        )
        first = endpoints[0]
        self._me = BrokerState(
            config.broker_id,
            NO_BROKER_EPOCH,
            "",
            first.host,
            first.port,
            config["broker.rack"],
            endpoints=tuple(endpoints),
        )
        self._requested: dict[str, int] = {}
        self._second = self._this_second = 0

    def api_versions(self, request: Request) -> None:
        body: ApiVersionsRequest = request.body
        version = request.header.api_version
        named = version < 3 or all(
            SOFTWARE_NAME.fullmatch(w) for w in (body.client_software_name, body.client_software_version)
        )
        response = apis.api_versions_response(version, ErrorCode.NONE if named else ErrorCode.INVALID_REQUEST)
        if version >= 3:
            if named:
                request.from_software(body.client_software_name, body.client_software_version)
            features.offer(response, self._image(), self._config)
        request.reply(response)

    def metadata(self, request: Request) -> None:
        body: MetadataRequest = request.body
        image, version = self._image(), request.header.api_version
        listener = request.listener
        if body.topics is None or (version == 0 and not body.topics):
            ready = (t for t in image.topics.values() if t.ready)
            seen = self._auth.filter_by_authorized(request, DESCRIBE, TOPIC, ready, lambda t: t.name)
            topics = [self._topic(image, t, version, listener) for t in seen]
        else:
            allow = body.allow_auto_topic_creation if version >= 4 else True
            requested, unauthorized = self._partition_by_authorized(request, image, body.topics, allow)
            once = {
                (w.topic_id, w.name): w for w in requested
            }  # each topic only once: a response may be 1,000 times as large as its request
            topics = [self._response_topic(image, w, version, allow, request) for w in once.values()]
            topics += [_unauthorized_topic(w, version) for w in unauthorized]
        if version >= 8 and body.include_topic_authorized_operations:
            for t in topics:
                if not t.error_code:
                    t.topic_authorized_operations = self._auth.authorized_operations(request, TOPIC, t.name or "")
        cluster_operations = AUTHORIZED_OPERATIONS_UNKNOWN
        if 8 <= version <= 10 and body.include_cluster_authorized_operations:
            cluster_operations = self._cluster_operations(request)
        request.reply(
            MetadataResponse(
                brokers=[
                    MetadataResponse.MetadataResponseBroker(node_id=b.broker_id, host=host, port=port, rack=b.rack)
                    for b, host, port in self._endpoints_on(image, listener)
                ],
                cluster_id=image.cluster_id or None,
                # Every live broker forwards admin requests to the controller, so the response names a broker that the client can reach.
                controller_id=self._config.broker_id,
                topics=topics,
                cluster_authorized_operations=cluster_operations,
            )
        )

    def _partition_by_authorized(
        self, request: Request, image: Image, topics: Sequence[RequestTopic], create: bool
    ) -> tuple[list[RequestTopic], list[RequestTopic]]:
        """(authorized, unauthorized) topics. A topic that would be created also needs CREATE on the cluster or on its name."""

        version = request.header.api_version

        def name_of(place: int) -> str | None:
            topic = topics[place]
            if not _by_id(topic, version):
                return topic.name
            state = image.topics.get(topic.topic_id)
            return state.name if state is not None else None

        auth = self._auth
        shown, unauthorized = auth.partition_by_authorized(request, DESCRIBE, TOPIC, range(len(topics)), name_of)
        if auth.enabled and create:
            absent = [i for i in shown if (name := name_of(i)) is not None and image.topic_named(name) is None]
            if absent and not auth.authorize(request, Operation.CREATE, Resource.CLUSTER):
                unauthorized += auth.partition_by_authorized(request, Operation.CREATE, TOPIC, absent, name_of)[1]
        rejected = frozenset(unauthorized)
        return [topics[i] for i in shown if i not in rejected], [topics[i] for i in sorted(rejected)]

    def _cluster_operations(self, request: Request) -> int:
        """The operations that the client may perform on the cluster, as bits; 0 if it may not describe the cluster."""
        if not self._auth.authorize(request, DESCRIBE, Resource.CLUSTER):
            return 0
        return self._auth.authorized_operations(request, Resource.CLUSTER)

    def _response_topic(
        self,
        image: Image,
        requested: RequestTopic,
        version: int,
        allow_create: bool,
        request: Request,
    ) -> MetadataResponse.MetadataResponseTopic:
        if _by_id(requested, version):
            topic = image.topics.get(requested.topic_id)
            if topic is None or not topic.ready:
                return MetadataResponse.MetadataResponseTopic(
                    error_code=ErrorCode.UNKNOWN_TOPIC_ID,
                    name=None if version >= 12 else "",
                    topic_id=requested.topic_id,
                )
            return self._topic(image, topic, version, request.listener)
        name = requested.name or ""
        topic = image.topic_named(name)
        if topic is not None and topic.ready:
            return self._topic(image, topic, version, request.listener)
        if topic_name_problem(name) is not None:
            error = ErrorCode.INVALID_TOPIC_EXCEPTION
        elif topic is not None:
            error = ErrorCode.LEADER_NOT_AVAILABLE
        elif allow_create and self._config["auto.create.topics.enable"]:
            error = self._create(name, request.principal)
        else:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return MetadataResponse.MetadataResponseTopic(error_code=error, name=name, topic_id=NO_ID)

    def _create(self, name: str, principal: str) -> ErrorCode:
        now = self._loop.now.mono_ms
        if now // 1_000 != self._second:
            self._second, self._this_second = now // 1_000, 0
        if now >= self._requested.get(name, 0) and self._this_second < AUTO_CREATIONS_PER_SECOND:
            self._this_second += 1
            if len(self._requested) >= NEGATIVE_CACHE_MAX:
                self._requested.clear()
            self._requested[name] = now + NEGATIVE_CACHE_MS
            topic = NewTopic(name, self._config["num.partitions"], self._config["default.replication.factor"])
            payload = CreateTopics(principal=principal, items=(topic,), auto=True)
            self._send_to_controller(payload, AUTO_CREATION_TIMEOUT_MS, lambda response: None)
        return ErrorCode.LEADER_NOT_AVAILABLE

    @staticmethod
    def _topic(image: Image, topic: TopicState, version: int, listener: str) -> MetadataResponse.MetadataResponseTopic:
        def partition(index: int, state: PartitionState) -> MetadataResponse.MetadataResponsePartition:
            leader = image.brokers.get(state.leader) if state.leader != NO_LEADER else None
            led = leader is not None and leader.alive
            error = ErrorCode.NONE if led else ErrorCode.LEADER_NOT_AVAILABLE
            if leader is not None and led and leader.address(listener) is None:
                led, error = False, ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
            return MetadataResponse.MetadataResponsePartition(
                error_code=error,
                partition_index=index,
                leader_id=state.leader if led else NO_LEADER,
                leader_epoch=state.leader_epoch,
                replica_nodes=list(state.replicas),
                isr_nodes=list(state.isr_ids),
                offline_replicas=[r for r in state.replicas if not image.alive(r)],
            )

        return MetadataResponse.MetadataResponseTopic(
            error_code=ErrorCode.NONE,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.internal,
            partitions=[partition(i, s) for i, s in sorted(topic.partitions.items())],
            topic_authorized_operations=AUTHORIZED_OPERATIONS_UNKNOWN,
        )

    def describe_cluster(self, request: Request) -> None:
        image = self._image()
        operations = AUTHORIZED_OPERATIONS_UNKNOWN
        if request.body.include_cluster_authorized_operations:
            operations = self._cluster_operations(request)
        if request.header.api_version >= 1 and request.body.endpoint_type != BROKERS:
            message = "controllers have no endpoints of their own in this cluster; query endpoint type 1 (brokers)"
            request.reply(
                DescribeClusterResponse(
                    error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                    error_message=message,
                    cluster_authorized_operations=operations,
                )
            )
            return
        fenced = request.header.api_version >= 2 and request.body.include_fenced_brokers
        request.reply(
            DescribeClusterResponse(
                error_code=ErrorCode.NONE,
                cluster_id=image.cluster_id,
                controller_id=self._config.broker_id,
                brokers=[
                    DescribeClusterResponse.DescribeClusterBroker(
                        broker_id=b.broker_id, host=host, port=port, rack=b.rack, is_fenced=not b.alive
                    )
                    for b, host, port in self._endpoints_on(image, request.listener, fenced=fenced)
                ],
                cluster_authorized_operations=operations,
            )
        )

    def _endpoints_on(self, image: Image, listener: str, *, fenced: bool = False) -> list[tuple[BrokerState, str, int]]:
        """(broker, host, port) of the live brokers that have this listener. A client of a listener can reach the other brokers on the same listener.

        `fenced`: the result also contains known brokers that are not alive. Kafka returns registered inactive brokers in this case (KIP-1073).

        The result always contains the responding broker, even if it is not registered, because the response names this broker as the controller. If
        the controller were not among the brokers, librdkafka would wait for it until its next metadata refresh, five minutes later.
        """
        brokers = {b.broker_id: b for b in (image.brokers.values() if fenced else image.live_brokers())}
        if not image.alive(self._me.broker_id):
            brokers[self._me.broker_id] = self._me
        return [(b, *at) for _, b in sorted(brokers.items()) if (at := b.address(listener)) is not None]


def _by_id(topic: RequestTopic, version: int) -> bool:
    """Return whether the request identifies the topic by its id. A name in addition to the id is ignored, also for authorization."""
    return version >= 10 and topic.topic_id != NO_ID


def _unauthorized_topic(topic: RequestTopic, version: int) -> MetadataResponse.MetadataResponseTopic:
    """A topic that was requested by its id is answered without its name."""
    name = topic.name if not _by_id(topic, version) else None if version >= 12 else ""
    return MetadataResponse.MetadataResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, topic_id=topic.topic_id
    )
