"""The doors to settings: of topics, of brokers, of this broker's log.

Laws: nothing is decided here about topics; a broker's settings are checked here, since the controller does not know their table, and both are wanted in rows
and carried by the metadata log. Every setting is told with its source, its type and all that stands behind it. Must not come in: what a setting does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from brokerd import dynamic
from brokerd.apis import loggers
from brokerd.apis.forwarding import Ask, Forwarding
from brokerd.apis.group_configs import RESOURCE_GROUP, GroupConfigs
from brokerd.cluster import configs
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import BROKER, GROUP
from brokerd.cluster.model import TopicState
from brokerd.config import BY_NAME, SETTINGS, BrokerConfig
from brokerd.dispatch import Handler, Request
from brokerd.dynamic import CLUSTER_WIDE, topic_default
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode

RESOURCE_TOPIC, RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS = 2, 4, 8, 16
SOURCE_TOPIC, SOURCE_DYNAMIC_BROKER, SOURCE_DYNAMIC_DEFAULT, SOURCE_STATIC, SOURCE_DEFAULT, SOURCE_LOGGER = range(1, 7)
OPERATIONS = {0: "set", 1: "delete", 2: "append", 3: "subtract"}
ALTER_TIMEOUT_MS = 30_000

Entry = m.DescribeConfigsResponse.DescribeConfigsResourceResult
Layer = tuple[str, str | None, int]
"""A setting's name, its value as text, and where that comes from; the first of several counts."""
Resource = tuple[int, str, list[dict[str, Any]]]
Result = Mapping[str, Any]


class ConfigsApi:
    def __init__(self, config: BrokerConfig, image: Callable[[], Image], ask: Ask) -> None:
        self._config, self._image, self._forward = config, image, Forwarding(ask)
        self._groups = GroupConfigs(config.values, image)

    def handlers(self) -> dict[int, Handler]:
        return {
            ApiKey.DESCRIBE_CONFIGS: self.describe,
            ApiKey.ALTER_CONFIGS: self.alter_legacy,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self.alter,
            ApiKey.LIST_CONFIG_RESOURCES: self.list_resources,
        }

    # -- changing ------------------------------------------------------------------------------------------------------
    def alter(self, request: Request) -> None:
        body: m.IncrementalAlterConfigsRequest = request.body
        resources = [
            (r.resource_type, r.resource_name, [{"name": c.name, "op": OPERATIONS.get(c.config_operation, "unknown"),
                                                 "value": c.value} for c in r.configs])
            for r in body.resources
        ]  # fmt: skip
        self._alter(request, resources, m.IncrementalAlterConfigsResponse)

    def alter_legacy(self, request: Request) -> None:
        """The older call: what is not named goes back to its default."""
        body: m.AlterConfigsRequest = request.body
        resources = []
        for r in body.resources:
            given = {c.name: c.value for c in r.configs}
            ops: list[dict[str, Any]] = [{"name": n, "op": "set", "value": v} for n, v in given.items()]
            ops += [
                {"name": n, "op": "delete", "value": None}
                for n in self._set(r.resource_type, r.resource_name)
                if n not in given
            ]
            resources.append((r.resource_type, r.resource_name, ops))
        self._alter(request, resources, m.AlterConfigsResponse)

    def _set(self, kind: int, name: str) -> Iterable[str]:
        """What is set of a resource, and may be taken back."""
        if kind == RESOURCE_TOPIC:
            state = self._image().topic_named(name)
            return state.configs if state is not None else ()
        if kind == RESOURCE_BROKER and (broker_id := self._broker(name)) is not None:
            return self._image().access_to(BROKER, str(broker_id))[1] or ()
        return self._groups.set(name) if kind == RESOURCE_GROUP else ()

    def _broker(self, name: str) -> int | None:
        """The broker that a resource's name means: this one or all of them."""
        if name == "":
            return CLUSTER_WIDE
        return self._config.broker_id if name == str(self._config.broker_id) else None

    def _alter(self, request: Request, resources: list[Resource], response: type[Any]) -> None:
        results: list[Result] = [{}] * len(resources)
        topics: dict[int, dict[str, Any]] = {}
        brokers: dict[int, dict[str, Any]] = {}
        groups: dict[int, dict[str, Any]] = {}
        for place, (kind, name, operations) in enumerate(resources):
            if kind == RESOURCE_TOPIC:
                topics[place] = {"name": name, "configs": operations}
            elif kind == RESOURCE_BROKER:
                item, results[place] = self._broker_change(name, operations)
                if item is not None:
                    brokers[place] = item
            elif kind == RESOURCE_BROKER_LOGGER:
                results[place] = self._alter_loggers(name, operations, request)
            elif kind == RESOURCE_GROUP:
                item, results[place] = self._groups.change(name, operations)
                if item is not None:
                    groups[place] = item
            else:
                results[place] = _no(f"configs of resource type {kind} are not kept here")
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
                        result(error_code=r["error"], error_message=r.get("message"), resource_type=k, resource_name=n)
                        for (k, n, _), r in zip(resources, results, strict=True)
                    ]
                )
            )

        def answered(places: Sequence[int], told: Sequence[Result]) -> None:
            for place, result in zip(places, told, strict=True):
                results[place] = result
            done()

        for kind_asked, items in (
            ("alter_topic_configs", topics),
            ("alter_broker_configs", brokers),
            ("alter_access", groups),
        ):
            if items:
                left += 1
                heard = partial(answered, [*items])
                self._forward(
                    request.principal,
                    kind_asked,
                    [*items.values()],
                    request.body.validate_only,
                    ALTER_TIMEOUT_MS,
                    heard,
                )
        done()

    def _broker_change(self, name: str, operations: list[dict[str, Any]]) -> tuple[dict[str, Any] | None, Result]:
        broker_id = self._broker(name)
        if broker_id is None:
            return None, _no(f"broker {self._config.broker_id} changes its own settings and those of all, not {name!r}")
        before = self._image().access_to(BROKER, str(broker_id))[1] or {}
        after, problem = dynamic.altered(BY_NAME, before, operations, broker_id)
        if problem is not None:
            return None, {"error": ErrorCode.INVALID_REQUEST, "message": problem}
        # What lists come to is known here alone; the rest is merged where the row is written, with what others ask meanwhile.
        final = [
            {"name": n, "op": "set" if n in after else "delete", "value": after.get(n)}
            for n in dict.fromkeys(op["name"] for op in operations)
        ]
        return {"name": name, "configs": final}, {}

    def _alter_loggers(self, name: str, operations: list[dict[str, Any]], request: Request) -> Result:
        if name != str(self._config.broker_id) or request.header.api_key != ApiKey.INCREMENTAL_ALTER_CONFIGS:
            return _no(f"broker {self._config.broker_id} changes the levels of its own log, incrementally")
        problem = loggers.problem(operations)
        if problem is not None:
            return _no(problem)
        if not request.body.validate_only:
            loggers.alter(operations)
        return {"error": ErrorCode.NONE}

    # -- telling -------------------------------------------------------------------------------------------------------
    def describe(self, request: Request) -> None:
        body: m.DescribeConfigsRequest = request.body
        results = []
        # Each once: an answer is a hundred times its question.
        for resource in {(r.resource_type, r.resource_name): r for r in body.resources}.values():
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
        request.reply(m.DescribeConfigsResponse(results=results))

    def _entries(self, kind: int, name: str) -> tuple[list[Entry], tuple[int, str] | None]:
        if kind == RESOURCE_TOPIC:
            topic = self._image().topic_named(name)
            if topic is None or not topic.ready:
                return [], (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
            return [self._of_topic(topic, d) for d in configs.TOPIC_CONFIGS.values()], None
        if kind == RESOURCE_BROKER and (broker_id := self._broker(name)) is not None:
            return self._of_broker(broker_id), None
        if kind == RESOURCE_BROKER_LOGGER and name == str(self._config.broker_id):
            return [
                _entry([(logger, level, SOURCE_LOGGER if loggers.own(logger) else SOURCE_DEFAULT)], configs.STRING)
                for logger, level in loggers.loggers().items()
            ], None
        if kind == RESOURCE_GROUP:
            return [_named(n, _entry(layers, configs.INT, doc)) for n, layers, doc in self._groups.layers(name)], None
        told = f"broker {self._config.broker_id} describes topics and itself, not resource type {kind} named {name!r}"
        return [], (ErrorCode.INVALID_REQUEST, told)

    def _of_topic(self, topic: TopicState, d: configs.Definition) -> Entry:
        layers: list[Layer] = []
        if d.name in topic.configs:
            layers.append((d.name, topic.configs[d.name], SOURCE_TOPIC))
        synonym, live = d.broker_synonym or d.name, self._config.live.topic_defaults
        if synonym in live:
            layers.append((synonym, live[synonym], SOURCE_DYNAMIC_DEFAULT))
        static = configs.broker_value(d, self._config.topic_defaults)
        if static is not None:
            layers.append((synonym, static, SOURCE_STATIC))
        layers.append((synonym, d.default_text, SOURCE_DEFAULT))
        shown = _entry(layers, d.kafka_type, d.doc)
        shown.name = d.name
        return shown

    def _of_broker(self, broker_id: int) -> list[Entry]:
        live = self._config.live
        own = {} if broker_id == CLUSTER_WIDE else live.own

        def entry(name: str, default: str | None, kind: int, doc: str, *, fixed: bool, secret: bool = False) -> Entry:
            layers: list[Layer] = [(name, given[name], source) for given, source in (
                (own, SOURCE_DYNAMIC_BROKER), (live.cluster, SOURCE_DYNAMIC_DEFAULT),
                (self._config.given, SOURCE_STATIC)) if name in given]  # fmt: skip
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
            if finest or synonym in self._config.given:
                fixed = not finest or synonym in dynamic.BY_THE_CONTROLLER
                out.append(entry(synonym, d.default_text if finest else None, d.kafka_type, d.doc, fixed=fixed))
        if broker_id == CLUSTER_WIDE:  # as in Kafka: what is set for all of them, nothing else
            out = [e for e in out if e.name in live.cluster]
        return out

    def list_resources(self, request: Request) -> None:
        """Of version 0 the subscriptions to clients' metrics (KIP-714): there are none."""
        r = m.ListConfigResourcesResponse
        if request.header.api_version == 0:
            request.reply(r())
            return
        known = {RESOURCE_TOPIC, RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP}
        wanted = set(request.body.resource_types) or known
        if not wanted <= known:
            request.reply(r(error_code=ErrorCode.UNSUPPORTED_VERSION))
            return
        image = self._image()
        brokers = [str(b.broker_id) for b in image.live_brokers()]
        found = [(RESOURCE_TOPIC, t.name) for t in image.topics.values() if t.ready]
        found += [(kind, b) for kind in (RESOURCE_BROKER, RESOURCE_BROKER_LOGGER) for b in brokers]
        found += [(RESOURCE_GROUP, key) for key, (_, value) in image.access.get(GROUP, {}).items() if value]
        request.reply(
            r(config_resources=[r.ConfigResource(resource_name=n, resource_type=k) for k, n in found if k in wanted])
        )


def _named(name: str, entry: Entry) -> Entry:
    entry.name = name
    return entry


def _no(message: str) -> Result:
    return {"error": ErrorCode.INVALID_REQUEST, "message": message}


def _entry(layers: Sequence[Layer], kafka_type: int, doc: str | None = None) -> Entry:
    _, value, source = layers[0]
    synonym = m.DescribeConfigsResponse.DescribeConfigsSynonym
    return Entry(
        name=layers[0][0], value=value, config_source=source, is_default=source == SOURCE_DEFAULT, config_type=kafka_type,
        documentation=doc, synonyms=[synonym(name=n, value=v, source=s) for n, v, s in layers],
    )  # fmt: skip
