"""CreateTopics, DeleteTopics and CreatePartitions.

Invariants: changes are forwarded to the controller through ZooKeeper, in pieces that fit into znodes and the metadata log. A request is answered
when the metadata log contains the result. Reads are answered from the metadata image. Each response contains Kafka's error code and a message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from brokerd.apis.forwarding import Forwarding, Results, SendToController
from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import MESSAGE, AuthHelper
from brokerd.authz.mutations import Mutations
from brokerd.cluster.image import Image
from brokerd.cluster.model import Now
from brokerd.cluster.requests import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ItemResult,
    NewPartitions,
    NewTopic,
    TopicToDelete,
)
from brokerd.config.broker import BrokerConfig
from brokerd.net.request import Request
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

SOURCE_TOPIC = 1
"""Kafka's config source DYNAMIC_TOPIC_CONFIG."""


STRICT_SINCE = {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}
"""First version of each API whose clients know THROTTLING_QUOTA_EXCEEDED (KIP-599). For older versions the change is made, and the response is delayed."""
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
EXCEEDED = ItemResult(error=ErrorCode.THROTTLING_QUOTA_EXCEEDED, message="The throttling quota has been exceeded.")


class AdminApi:
    def __init__(
        self,
        config: BrokerConfig,
        image: Callable[[], Image],
        send_to_controller: SendToController,
        mutations: Mutations,
        clock: Callable[[], Now],
        auth: AuthHelper,
    ) -> None:
        self._config, self._image, self._auth = config, image, auth
        self._forward = Forwarding(send_to_controller)
        self._mutations, self._clock = mutations, clock

    def _within_quota(
        self,
        request: Request,
        payload: CreateTopics | DeleteTopics | CreatePartitions,
        counts: Sequence[int],
        done: Callable[[Results], None],
        partitions: int = 0,
    ) -> None:
        """Forward the items within the requester's quota. `counts`: the partitions that each topic creates or deletes."""
        items: Sequence[NewTopic | TopicToDelete | NewPartitions] = payload.items
        key = request.header.api_key
        strict = request.header.api_version >= STRICT_SINCE[ApiKey(key)]
        taken = self._mutations.take(request, counts, self._clock().mono_ms, strict=strict)

        def on_authorized_results(results: Results) -> None:
            rest = iter(results)
            pairs = zip(items, taken, strict=True)
            done([next(rest) if may else replace(EXCEEDED, name=t.name) for t, may in pairs])

        allowed = payload.only(place for place, may in enumerate(taken) if may)
        self._forward(allowed, request.body.timeout_ms, on_authorized_results, partitions)

    # -- topics --------------------------------------------------------------------------------------------------------
    def create_topics(self, request: Request) -> None:
        body: CreateTopicsRequest = request.body
        all_topics = self._auth.authorize(request, Operation.CREATE, Resource.CLUSTER)
        authorized, unauthorized = self._auth.partition_by_authorized(
            request, Operation.CREATE, Resource.TOPIC, body.topics, lambda t: None if all_topics else t.name
        )
        topics = tuple(self._new_topic(t) for t in authorized)

        def on_results(results: Results) -> None:
            shaped = []
            for result in results:
                shape = CreateTopicsResponse.CreatableTopicResult(
                    name=result.name or "",
                    error_code=result.error,
                    error_message=result.message,
                    num_partitions=-1,
                    replication_factor=-1,
                )
                state = self._image().topic_named(result.name or "")
                if not result.error and state is not None and state.partitions:
                    shape.topic_id = state.topic_id
                    shape.num_partitions = state.partition_count
                    shape.replication_factor = len(next(iter(state.partitions.values())).replicas)
                    shape.configs = [
                        CreateTopicsResponse.CreatableTopicConfigs(name=n, value=v, config_source=SOURCE_TOPIC)
                        for n, v in state.configs.items()
                    ]
                shaped.append(shape)
            shaped += [
                CreateTopicsResponse.CreatableTopicResult(name=t.name, error_code=DENIED, error_message=MESSAGE)
                for t in unauthorized
            ]
            request.reply(CreateTopicsResponse(topics=shaped))

        counts = [max(0, t.partitions) for t in topics]
        made = [0 if self._image().topic_named(t.name) else n for t, n in zip(topics, counts, strict=True)]
        payload = CreateTopics(principal=request.principal, items=topics, validate_only=body.validate_only)
        self._within_quota(request, payload, made, on_results, sum(counts))

    def _new_topic(self, topic: CreateTopicsRequest.CreatableTopic) -> NewTopic:
        """The topic to create. A partition count or replication factor of -1 is replaced with the broker's default."""
        partitions = len(topic.assignments) or topic.num_partitions
        factor = len(topic.assignments[0].broker_ids) if topic.assignments else topic.replication_factor
        return NewTopic(
            topic.name,
            self._config["num.partitions"] if partitions == -1 else partitions,
            self._config["default.replication.factor"] if factor == -1 else factor,
            {a.partition_index: tuple(a.broker_ids) for a in topic.assignments} or None,
            {c.name: c.value for c in topic.configs},
        )

    def delete_topics(self, request: Request) -> None:
        body: DeleteTopicsRequest = request.body
        image = self._image()
        requested = body.topics
        if request.header.api_version < 6:
            requested = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in body.topic_names]

        def name_of(t: DeleteTopicsRequest.DeleteTopicState) -> str | None:
            if t.name is not None:
                return t.name
            state = image.topics.get(t.topic_id)
            return state.name if state is not None else None

        authorized, unauthorized = self._auth.partition_by_authorized(
            request, Operation.DELETE, Resource.TOPIC, requested, name_of
        )
        deletions = [
            TopicToDelete(t.name) if t.name is not None else TopicToDelete(name_of(t), t.topic_id) for t in authorized
        ]
        states = [image.topic_named(w.name) if w.name else None for w in deletions]
        ids = {state.name: state.topic_id for state in states if state is not None}

        def on_results(results: Results) -> None:
            shaped = []
            for w, result in zip(deletions, results, strict=True):
                shape = DeleteTopicsResponse.DeletableTopicResult(
                    name=result.name, error_code=result.error, error_message=result.message
                )
                if w.name in ids:
                    shape.topic_id = ids[w.name]
                shaped.append(shape)
            shaped += [self._unauthorized_deletion(request, t, name_of(t)) for t in unauthorized]
            request.reply(DeleteTopicsResponse(responses=shaped))

        counts = [state.partition_count if state is not None else 0 for state in states]
        payload = DeleteTopics(principal=request.principal, items=tuple(deletions))
        self._within_quota(request, payload, counts, on_results)

    def _unauthorized_deletion(
        self, request: Request, topic: DeleteTopicsRequest.DeleteTopicState, name: str | None
    ) -> DeleteTopicsResponse.DeletableTopicResult:
        """The result of a topic that the client may not delete. If the request contains only the topic id, the result contains the topic name
        only if the client may describe the topic."""
        known = topic.name is not None or self._auth.authorize(request, Operation.DESCRIBE, Resource.TOPIC, name or "")
        return DeleteTopicsResponse.DeletableTopicResult(
            name=name if known else None, topic_id=topic.topic_id, error_code=DENIED
        )

    def create_partitions(self, request: Request) -> None:
        body: CreatePartitionsRequest = request.body
        authorized, unauthorized = self._auth.partition_by_authorized(
            request, Operation.ALTER, Resource.TOPIC, body.topics, lambda t: t.name
        )
        topics = tuple(
            NewPartitions(t.name, t.count, tuple(tuple(a.broker_ids) for a in t.assignments) if t.assignments else None)
            for t in authorized
        )

        def on_results(results: Results) -> None:
            request.reply(
                CreatePartitionsResponse(
                    results=[
                        CreatePartitionsResponse.CreatePartitionsTopicResult(
                            name=r.name or "", error_code=r.error, error_message=r.message
                        )
                        for r in results
                    ]
                    + [
                        CreatePartitionsResponse.CreatePartitionsTopicResult(name=t.name, error_code=DENIED)
                        for t in unauthorized
                    ]
                )
            )

        image = self._image()
        present = {t.name: state.partition_count for t in authorized if (state := image.topic_named(t.name))}
        added = [max(0, t.count - present[t.name]) if t.name in present else 0 for t in authorized]
        payload = CreatePartitions(principal=request.principal, items=topics, validate_only=body.validate_only)
        self._within_quota(request, payload, added, on_results, sum(added))
