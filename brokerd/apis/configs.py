"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: topics, brokers, groups, broker loggers.

Invariants: topic settings are validated by the controller. Broker settings are validated here, because the controller does not have the table of broker
settings. Both are rows in the database and records of the metadata log. Each setting has its source, type and synonyms. Does not contain: the effect of a
setting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from brokerd.apis import loggers
from brokerd.apis.forwarding import Forwarding, Results, SendToController
from brokerd.apis.group_configs import RESOURCE_GROUP, GroupConfigs
from brokerd.authz.acls import CLUSTER_NAME, Operation, Resource
from brokerd.authz.auth_helper import AUTHORIZATION_FAILED, MESSAGE, AuthHelper
from brokerd.cluster import configs
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import GROUP
from brokerd.cluster.model import TopicState
from brokerd.cluster.requests import (
    AccessUpdate,
    AlterAccess,
    AlterBrokerConfigs,
    AlterConfigOp,
    AlterTopicConfigs,
    BrokerConfigOps,
    ItemResult,
    OpType,
    TopicConfigOps,
)
from brokerd.config import dynamic
from brokerd.config.broker import BY_NAME, SETTINGS, BrokerConfig
from brokerd.config.dynamic import CLUSTER_WIDE, topic_default
from brokerd.net.request import Handler, Request
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode

RESOURCE_TOPIC, RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS = 2, 4, 8, 16
SOURCE_TOPIC, SOURCE_DYNAMIC_BROKER, SOURCE_DYNAMIC_DEFAULT, SOURCE_STATIC, SOURCE_DEFAULT, SOURCE_LOGGER = range(1, 7)
OPERATIONS = {0: OpType.SET, 1: OpType.DELETE, 2: OpType.APPEND, 3: OpType.SUBTRACT}
"""Operations by Kafka's code (KIP-339)."""
ALTER_TIMEOUT_MS = 30_000

T = TypeVar("T")
Entry = m.DescribeConfigsResponse.DescribeConfigsResourceResult
Layer = tuple[str, str | None, int]
"""Name of a setting, its value as text, and its source. If a setting has several layers, the first one is effective."""
ResourceChange = tuple[int, str, tuple[AlterConfigOp, ...]]
AUTHORIZED_BY_NAME = {RESOURCE_TOPIC: Resource.TOPIC, RESOURCE_GROUP: Resource.GROUP}
"""Resources of other types need the permission on the cluster."""


class ConfigsApi:
    def __init__(
        self, config: BrokerConfig, image: Callable[[], Image], send_to_controller: SendToController, auth: AuthHelper
    ) -> None:
        self._config, self._image, self._forward, self._auth = config, image, Forwarding(send_to_controller), auth
        self._groups = GroupConfigs(config.values, image)

    def handlers(self) -> dict[int, Handler]:
        return {
            ApiKey.DESCRIBE_CONFIGS: self.describe,
            ApiKey.ALTER_CONFIGS: self.alter_legacy,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self.alter,
            ApiKey.LIST_CONFIG_RESOURCES: self.list_resources,
        }

    # -- alter ---------------------------------------------------------------------------------------------------------
    def alter(self, request: Request) -> None:
        authorized, unauthorized = self._partition_by_authorized(request, Operation.ALTER_CONFIGS)
        resources = [
            (
                r.resource_type,
                r.resource_name,
                tuple(
                    AlterConfigOp(c.name, OPERATIONS.get(c.config_operation, OpType.UNKNOWN), c.value)
                    for c in r.configs
                ),
            )
            for r in authorized
        ]
        self._alter(request, resources, unauthorized, m.IncrementalAlterConfigsResponse)

    def alter_legacy(self, request: Request) -> None:
        """AlterConfigs. A config that the request omits is reset to its default."""
        authorized, unauthorized = self._partition_by_authorized(request, Operation.ALTER_CONFIGS)
        resources = []
        for r in authorized:
            given = {c.name: c.value for c in r.configs}
            ops = [AlterConfigOp(n, OpType.SET, v) for n, v in given.items()]
            set_before = self._names_set_on(r.resource_type, r.resource_name)
            ops += [AlterConfigOp(n, OpType.DELETE) for n in set_before if n not in given]
            resources.append((r.resource_type, r.resource_name, tuple(ops)))
        self._alter(request, resources, unauthorized, m.AlterConfigsResponse)

    def _names_set_on(self, kind: int, name: str) -> Iterable[str]:
        """The names of the configs that are set on a resource. AlterConfigs resets the configs that the request omits."""
        if kind == RESOURCE_TOPIC:
            state = self._image().topic_named(name)
            return state.configs if state is not None else ()
        if kind == RESOURCE_BROKER and (broker_id := self._broker(name)) is not None:
            return self._image().configs_of_broker(broker_id)[1]
        return self._groups.set(name) if kind == RESOURCE_GROUP else ()

    def _broker(self, name: str) -> int | None:
        """The broker id of a BROKER resource: CLUSTER_WIDE for the empty name, this broker's id for its own name, otherwise None."""
        if name == "":
            return CLUSTER_WIDE
        return self._config.broker_id if name == str(self._config.broker_id) else None

    def _partition_by_authorized(self, request: Request, operation: Operation) -> tuple[list[Any], list[Any]]:
        """Return the resources of the request: (authorized, unauthorized)."""

        def resource_of(x: Any) -> tuple[Resource, str]:
            resource = _authorized_as(x)
            return resource, CLUSTER_NAME if resource is Resource.CLUSTER else x.resource_name

        return self._auth.partition_by_authorized_resource(request, operation, request.body.resources, resource_of)

    def _alter(
        self, request: Request, resources: list[ResourceChange], unauthorized: list[Any], response: type[Any]
    ) -> None:
        results = [ItemResult()] * len(resources)
        topics: dict[int, TopicConfigOps] = {}
        brokers: dict[int, BrokerConfigOps] = {}
        groups: dict[int, AccessUpdate] = {}
        for place, (kind, name, operations) in enumerate(resources):
            if kind == RESOURCE_TOPIC:
                topics[place] = TopicConfigOps(name, operations)
            elif kind == RESOURCE_BROKER:
                change = self._broker_change(name, operations)
                if isinstance(change, BrokerConfigOps):
                    brokers[place] = change
                else:
                    results[place] = change
            elif kind == RESOURCE_BROKER_LOGGER:
                results[place] = self._alter_loggers(name, operations, request)
            elif kind == RESOURCE_GROUP:
                update = self._groups.change(name, operations)
                if isinstance(update, AccessUpdate):
                    groups[place] = update
                else:
                    results[place] = update
            else:
                results[place] = _no(f"configs of resource type {kind} are not supported")
        left = 1

        def done() -> None:
            nonlocal left
            left -= 1
            if left:
                return
            result = response.AlterConfigsResourceResponse
            request.reply(
                response(
                    responses=[
                        result(error_code=r.error, error_message=r.message, resource_type=k, resource_name=n)
                        for (k, n, _), r in zip(resources, results, strict=True)
                    ]
                    + [_unauthorized_result(x, result) for x in unauthorized]
                )
            )

        def on_outcomes(places: Sequence[int], outcomes: Results) -> None:
            for place, result in zip(places, outcomes, strict=True):
                results[place] = result
            done()

        common = {"principal": request.principal, "validate_only": request.body.validate_only}
        for places, payload in (
            ([*topics], AlterTopicConfigs(items=(*topics.values(),), **common)),
            ([*brokers], AlterBrokerConfigs(items=(*brokers.values(),), **common)),
            ([*groups], AlterAccess(items=(*groups.values(),), **common)),
        ):
            if places:
                left += 1
                self._forward(payload, ALTER_TIMEOUT_MS, partial(on_outcomes, places))
        done()

    def _broker_change(self, name: str, operations: Sequence[AlterConfigOp]) -> BrokerConfigOps | ItemResult:
        broker_id = self._broker(name)
        if broker_id is None:
            return _no(
                f"broker {self._config.broker_id} can alter only its own configs and the cluster-wide ones: send the request to broker {name!r}"
            )
        before = self._image().configs_of_broker(broker_id)[1]
        after, problem = dynamic.apply_operations(BY_NAME, before, operations, broker_id)
        if problem is not None:
            return _no(problem)
        # The new values of lists (APPEND, SUBTRACT) are computed here. The controller merges concurrent requests when it writes the row.
        final = tuple(
            AlterConfigOp(n, OpType.SET if n in after else OpType.DELETE, after.get(n))
            for n in dict.fromkeys(op.name for op in operations)
        )
        return BrokerConfigOps(name, final)

    def _alter_loggers(self, name: str, operations: Sequence[AlterConfigOp], request: Request) -> ItemResult:
        if name != str(self._config.broker_id) or request.header.api_key != ApiKey.INCREMENTAL_ALTER_CONFIGS:
            return _no(
                f"this is broker {self._config.broker_id}, the request is about {name!r}: alter log levels with IncrementalAlterConfigs at their broker"
            )
        problem = loggers.problem(operations)
        if problem is not None:
            return _no(problem)
        if not request.body.validate_only:
            loggers.alter(operations)
        return ItemResult(name)

    # -- describe ------------------------------------------------------------------------------------------------------
    def describe(self, request: Request) -> None:
        body: m.DescribeConfigsRequest = request.body
        results = []
        # Describe each resource once, because a response is a hundred times as large as its request.
        authorized, unauthorized = self._partition_by_authorized(request, Operation.DESCRIBE_CONFIGS)
        for resource in {(r.resource_type, r.resource_name): r for r in authorized}.values():
            result = m.DescribeConfigsResponse.DescribeConfigsResult(
                resource_type=resource.resource_type, resource_name=resource.resource_name
            )
            results.append(result)
            entries, problem = self._entries(resource.resource_type, resource.resource_name)
            if problem is not None:
                result.error_code, result.error_message = problem
            keys = set(resource.configuration_keys) if resource.configuration_keys else None
            for entry in entries:
                if keys is None or entry.name in keys:
                    if not body.include_synonyms:
                        entry.synonyms = []
                    if not body.include_documentation:
                        entry.documentation = None
                    result.configs.append(entry)
        results += [_unauthorized_result(x, m.DescribeConfigsResponse.DescribeConfigsResult) for x in unauthorized]
        request.reply(m.DescribeConfigsResponse(results=results))

    def _entries(self, kind: int, name: str) -> tuple[list[Entry], tuple[int, str] | None]:
        if kind == RESOURCE_TOPIC:
            topic = self._image().topic_named(name)
            if topic is None or not topic.ready:
                return [], (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
            return [self._of_topic(topic, d) for d in configs.TOPIC_CONFIGS.values()], None
        if kind == RESOURCE_BROKER and (broker_id := self._broker(name)) is not None:
            return self._of_broker(broker_id), None
        if kind == RESOURCE_BROKER_LOGGER and name == str(self._config.broker_id):
            return [
                _entry(
                    [(logger, level, SOURCE_LOGGER if loggers.has_own_level(logger) else SOURCE_DEFAULT)],
                    configs.STRING,
                )
                for logger, level in loggers.loggers().items()
            ], None
        if kind == RESOURCE_GROUP:
            return [
                _with_name(n, _entry(layers, configs.INT, doc)) for n, layers, doc in self._groups.layers(name)
            ], None
        reason = (
            f"broker {self._config.broker_id} can describe topics and itself, not resource type {kind} named {name!r}"
        )
        return [], (ErrorCode.INVALID_REQUEST, reason)

    def _of_topic(self, topic: TopicState, definition: configs.Definition) -> Entry:
        layers: list[Layer] = []
        if definition.name in topic.configs:
            layers.append((definition.name, topic.configs[definition.name], SOURCE_TOPIC))
        synonym, live = definition.broker_synonym or definition.name, self._config.live.topic_defaults
        if synonym in live:
            layers.append((synonym, live[synonym], SOURCE_DYNAMIC_DEFAULT))
        static = configs.broker_value(definition, self._config.topic_defaults)
        if static is not None:
            layers.append((synonym, static, SOURCE_STATIC))
        layers.append((synonym, definition.default_text, SOURCE_DEFAULT))
        shown = _entry(layers, definition.kafka_type, definition.doc)
        shown.name = definition.name
        return shown

    def _of_broker(self, broker_id: int) -> list[Entry]:
        live = self._config.live
        own = {} if broker_id == CLUSTER_WIDE else live.of_broker

        def entry(name: str, default: str | None, kind: int, doc: str, *, fixed: bool, secret: bool = False) -> Entry:
            layers: list[Layer] = [
                (name, given[name], source)
                for given, source in (
                    (own, SOURCE_DYNAMIC_BROKER),
                    (live.cluster, SOURCE_DYNAMIC_DEFAULT),
                    (self._config.file_settings, SOURCE_STATIC),
                )
                if name in given
            ]
            if default is not None or not layers:
                layers.append((name, default, SOURCE_DEFAULT))
            if secret:
                layers = [(n, None, source) for n, _, source in layers]
            shown = _entry(layers, kind, doc)
            shown.read_only, shown.is_sensitive = fixed, secret
            return shown

        out = [
            entry(s.name, s.show(s.default), s.kafka_type, s.doc, fixed=not s.live, secret=s.secret) for s in SETTINGS
        ]
        for synonym, topic in configs.BROKER_SYNONYMS.items():
            d = configs.TOPIC_CONFIGS[topic]
            finest = topic_default(synonym) is not None
            if finest or synonym in self._config.file_settings:
                fixed = not finest or synonym in dynamic.BY_THE_CONTROLLER
                out.append(entry(synonym, d.default_text if finest else None, d.kafka_type, d.doc, fixed=fixed))
        if broker_id == CLUSTER_WIDE:  # as in Kafka: only settings that are set cluster-wide
            out = [e for e in out if e.name in live.cluster]
        return out

    def list_resources(self, request: Request) -> None:
        """Version 0 lists client metrics subscriptions (KIP-714). Weir has none."""
        response_type = m.ListConfigResourcesResponse
        if not self._auth.authorize(request, Operation.DESCRIBE_CONFIGS, Resource.CLUSTER):
            request.reply(response_type(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
            return
        if request.header.api_version == 0:
            request.reply(response_type())
            return
        known = {RESOURCE_TOPIC, RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP}
        requested = set(request.body.resource_types) or known
        if not requested <= known:
            request.reply(response_type(error_code=ErrorCode.UNSUPPORTED_VERSION))
            return
        image = self._image()
        brokers = [str(b.broker_id) for b in image.live_brokers()]
        found = [(RESOURCE_TOPIC, t.name) for t in image.topics.values() if t.ready]
        found += [(kind, b) for kind in (RESOURCE_BROKER, RESOURCE_BROKER_LOGGER) for b in brokers]
        found += [(RESOURCE_GROUP, key) for key, (_, value) in image.access.get(GROUP, {}).items() if value]
        request.reply(
            response_type(
                config_resources=[
                    response_type.ConfigResource(resource_name=n, resource_type=k) for k, n in found if k in requested
                ]
            )
        )


def _authorized_as(resource: Any) -> Resource:
    return AUTHORIZED_BY_NAME.get(resource.resource_type, Resource.CLUSTER)


def _unauthorized_result(resource: Any, result: Callable[..., T]) -> T:
    return result(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_code=AUTHORIZATION_FAILED[_authorized_as(resource)],
        error_message=MESSAGE,
    )


def _with_name(name: str, entry: Entry) -> Entry:
    entry.name = name
    return entry


def _no(message: str) -> ItemResult:
    return ItemResult(None, ErrorCode.INVALID_REQUEST, message)


def _entry(layers: Sequence[Layer], kafka_type: int, doc: str | None = None) -> Entry:
    _, value, source = layers[0]
    synonym = m.DescribeConfigsResponse.DescribeConfigsSynonym
    return Entry(
        name=layers[0][0],
        value=value,
        config_source=source,
        is_default=source == SOURCE_DEFAULT,
        config_type=kafka_type,
        documentation=doc,
        synonyms=[synonym(name=n, value=v, source=s) for n, v, s in layers],
    )
