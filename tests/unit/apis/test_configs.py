"""Configs at a broker: DescribeConfigs returns every value with its synonyms. One request changes configs of topics,
of brokers and of the metadata log."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from brokerd.apis.configs import ConfigsApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.cluster.configs import BROKER_SYNONYMS
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import AccessChanged, BrokerConfigChanged, RequestCompleted
from brokerd.cluster.model import BrokerState, TopicState
from brokerd.config.broker import SETTINGS, BrokerConfig
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from tests.unit.stored_requests import recorder

TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
FILE = {
    "broker.id": "1",
    "log.dirs": "/tmp/x",
    "num.partitions": "4",
    "log.retention.hours": "1",
    "listeners": "127.0.0.1:9092",
    "sasl.jaas.config": 'org.x.Scram required username="me" password="hush-hush";',
}


class Broker:
    def __init__(self) -> None:
        self.image = Image(metadata_version=3)
        self.image.brokers[1] = BrokerState(1, 11, "u", "h", 1)
        self.image.topics[UUID(int=1)] = TopicState(UUID(int=1), "t", 1, {"retention.ms": "7"}, 1, True)
        self.image.topic_ids["t"] = UUID(int=1)
        self.config = BrokerConfig.parse(FILE, BROKER_SYNONYMS.__contains__)
        self.requested: list[Any] = []
        self.reported: list[Any] = []
        self.api = ConfigsApi(self.config, lambda: self.image, recorder(self.requested), ALLOW_ALL)

    def set(self, broker_id: int, **settings: str) -> None:
        generation = self.image.access_to("broker", str(broker_id))[0] + 1
        settings = {k.replace("_", "."): v for k, v in settings.items()}
        self.image.apply(BrokerConfigChanged(broker_id, generation, settings))
        self.config.follow(self.image.broker_configs)

    def request(self, body: Any, key: int, version: int = 1) -> Any:
        header = SimpleNamespace(api_version=version, api_key=key)
        return SimpleNamespace(body=body, header=header, principal="User:ann", reply=self.reported.append)

    def describe(self, kind: int, name: str, **more: Any) -> Any:
        resource = m.DescribeConfigsRequest.DescribeConfigsResource(kind, name, None)
        body = m.DescribeConfigsRequest([resource], **{"include_synonyms": True, "include_documentation": True, **more})
        self.api.describe(self.request(body, ApiKey.DESCRIBE_CONFIGS))
        return self.reported.pop().results[0]

    def entries(self, kind: int, name: str, **more: Any) -> dict[str, Any]:
        return {e.name: e for e in self.describe(kind, name, **more).configs}

    def alter(self, *resources: tuple[int, str, dict[str, str | None]], validate_only: bool = False) -> list[Any]:
        r = m.IncrementalAlterConfigsRequest
        body = r(
            [
                r.AlterConfigsResource(
                    kind, name, [r.AlterableConfig(n, 1 if v is None else 0, v) for n, v in ops.items()]
                )
                for kind, name, ops in resources
            ],
            validate_only,
        )
        self.api.alter(self.request(body, ApiKey.INCREMENTAL_ALTER_CONFIGS))
        return list(self.reported.pop().responses) if self.reported else []

    def respond(self, number: int = 0, error: int = 0) -> None:
        _, payload, _, done = self.requested.pop(number)
        results = [{"name": t["name"], "error": error, "message": None} for t in payload["topics"]]
        done(RequestCompleted("r", 0, None, {"results": results}))


def synonyms_of(entry: Any) -> list[tuple[str, str | None, int]]:
    return [(s.name, s.value, s.source) for s in entry.synonyms]


def test_a_described_broker_config_has_its_synonyms() -> None:
    broker = Broker()
    broker.set(-1, num_partitions="5")
    broker.set(1, num_partitions="6")
    entry = broker.entries(BROKER, "1")["num.partitions"]
    assert (entry.value, entry.config_source, entry.read_only, entry.config_type) == ("6", 2, False, 3)
    assert "automatically created" in entry.documentation
    assert synonyms_of(entry) == [
        (entry.name, "6", 2),
        (entry.name, "5", 3),
        (entry.name, "4", 4),
        (entry.name, "1", 5),
    ]


def test_every_broker_config_is_described_without_secrets() -> None:
    broker = Broker()
    shown = broker.entries(BROKER, "1")
    assert {s.name for s in SETTINGS} <= shown.keys()
    assert {"log.retention.ms", "log.retention.hours", "min.insync.replicas"} <= shown.keys()
    secret = shown["sasl.jaas.config"]
    assert (secret.value, secret.is_sensitive, secret.config_source, secret.config_type) == (None, True, 4, 9)
    assert "hush" not in repr(shown)
    assert (shown["listeners"].value, shown["listeners"].read_only) == ("127.0.0.1:9092", True)
    assert shown["log.retention.ms"].read_only is False
    assert shown["min.insync.replicas"].read_only is False
    assert shown["unclean.leader.election.enable"].read_only is True


def test_the_empty_broker_name_describes_the_cluster_wide_configs() -> None:
    broker = Broker()
    broker.set(-1, num_partitions="5", log_retention_ms="9")
    broker.set(1, max_connections="6")
    assert {n: (e.value, e.config_source) for n, e in broker.entries(BROKER, "").items()} == {
        "num.partitions": ("5", 3),
        "log.retention.ms": ("9", 3),
    }


def test_a_described_topic_config_has_the_broker_default_in_its_own_unit() -> None:
    broker = Broker()
    broker.set(-1, log_retention_ms="9")
    entry = broker.entries(TOPIC, "t")["retention.ms"]
    assert (entry.value, entry.config_source) == ("7", 1)
    assert synonyms_of(entry) == [
        ("retention.ms", "7", 1),
        ("log.retention.ms", "9", 3),
        ("log.retention.ms", "3600000", 4),
        ("log.retention.ms", "604800000", 5),
    ]


def test_synonyms_and_documentation_are_returned_on_request() -> None:
    entry = Broker().entries(TOPIC, "t", include_synonyms=False, include_documentation=False)["retention.ms"]
    assert (entry.synonyms, entry.documentation, entry.value) == ([], None, "7")


@pytest.mark.parametrize(("kind", "name"), [(BROKER, "2"), (LOGGER, "2"), (16, "x"), (99, "")])
def test_another_broker_id_and_an_unknown_resource_type_are_rejected(kind: int, name: str) -> None:
    reported = Broker().describe(kind, name)
    assert reported.error_code == 42
    assert "broker 1 can describe" in reported.error_message


def test_one_request_alters_topics_brokers_and_log_levels_with_one_ordered_response() -> None:
    broker = Broker()
    broker.set(1, max_connections="6")
    level = logging.getLogger("brokerd.test-of-configs").level
    none_yet = broker.alter(
        (BROKER, "1", {"num.partitions": "8", "max.connections": None}),
        (TOPIC, "t", {"retention.ms": "1"}),
        (LOGGER, "1", {"brokerd.test-of-configs": "debug"}),
        (BROKER, "", {"log.dirs": "/y"}),
        (7, "q", {}),
    )
    assert none_yet == []
    assert logging.getLogger("brokerd.test-of-configs").level == logging.DEBUG
    logging.getLogger("brokerd.test-of-configs").setLevel(level)
    kinds = {kind: payload for kind, payload, _, _ in broker.requested}
    assert kinds["alter_broker_configs"]["topics"] == [
        {
            "name": "1",
            "configs": [
                {"name": "num.partitions", "op": "set", "value": "8"},
                {"name": "max.connections", "op": "delete", "value": None},
            ],
        }
    ]
    assert kinds["alter_broker_configs"]["principal"] == "User:ann"
    broker.respond(1)
    assert not broker.reported
    broker.respond(0, error=40)
    (response,) = broker.reported
    assert [(r.resource_type, r.resource_name, r.error_code) for r in response.responses] == [
        (BROKER, "1", 0),
        (TOPIC, "t", 40),
        (LOGGER, "1", 0),
        (BROKER, "", 42),
        (7, "q", 42),
    ]


def test_alter_configs_resets_the_configs_that_it_does_not_list() -> None:
    broker = Broker()
    broker.set(1, num_partitions="5", max_connections="6")
    r = m.AlterConfigsRequest
    body = r([r.AlterConfigsResource(BROKER, "1", [r.AlterableConfig("max.connections", "7")])], False)
    broker.api.alter_legacy(broker.request(body, ApiKey.ALTER_CONFIGS))
    assert broker.requested[0][1]["topics"][0]["configs"] == [
        {"name": "max.connections", "op": "set", "value": "7"},
        {"name": "num.partitions", "op": "delete", "value": None},
    ]


def test_log_levels_have_kafkas_names_and_change_immediately() -> None:
    broker = Broker()
    logger = logging.getLogger("brokerd.test-of-levels")
    logger.setLevel(logging.WARNING)
    shown = broker.entries(LOGGER, "1")
    assert (shown[logger.name].value, shown[logger.name].config_source) == ("WARN", 6)
    broker.alter((LOGGER, "1", {logger.name: "FATAL"}), validate_only=True)
    assert logger.level == logging.WARNING
    (reported,) = broker.alter((LOGGER, "1", {logger.name: None}))
    assert (reported.error_code, logger.level) == (0, logging.NOTSET)
    assert broker.entries(LOGGER, "1")[logger.name].config_source == 5
    for wrong in ({"no.such.logger": "INFO"}, {logger.name: "LOUD"}, {"root": None}):
        (reported,) = broker.alter((LOGGER, "1", wrong))
        assert reported.error_code == 42, wrong


def test_resources_that_have_configs_are_listed() -> None:
    broker = Broker()
    broker.api.list_resources(broker.request(m.ListConfigResourcesRequest(), 74, 0))
    assert broker.reported.pop() == m.ListConfigResourcesResponse()
    broker.api.list_resources(broker.request(m.ListConfigResourcesRequest(), 74, 1))
    found = [(r.resource_type, r.resource_name) for r in broker.reported.pop().config_resources]
    assert found == [(TOPIC, "t"), (BROKER, "1"), (LOGGER, "1")]
    broker.api.list_resources(broker.request(m.ListConfigResourcesRequest([99]), 74, 1))
    assert broker.reported.pop().error_code == 35


def test_group_configs_are_limited_by_broker_configs_and_override_them() -> None:
    broker = Broker()
    session, beat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    reported = broker.entries(GROUP, "g")
    assert {n: (e.value, e.config_source, e.is_default) for n, e in reported.items()} == {
        session: ("45000", 5, True),
        beat: ("5000", 5, True),
        "consumer.assignment.interval.ms": ("0", 5, True),
        "share.session.timeout.ms": ("45000", 5, True),
        "share.heartbeat.interval.ms": ("5000", 5, True),
        "share.assignment.interval.ms": ("1000", 5, True),
        "share.record.lock.duration.ms": ("30000", 5, True),
        "share.delivery.count.limit": ("5", 5, True),
        "share.partition.max.record.locks": ("2000", 5, True),
        "share.auto.offset.reset": ("latest", 5, True),
        "share.isolation.level": ("read_uncommitted", 5, True),
        "share.renew.acknowledge.enable": ("true", 5, True),
        "errors.deadletterqueue.topic.name": ("", 5, True),
        "errors.deadletterqueue.copy.record.enable": ("false", 5, True),
        "weir.share.key.order.enable": ("false", 5, True),
        "streams.session.timeout.ms": ("45000", 5, True),
        "streams.heartbeat.interval.ms": ("5000", 5, True),
        "streams.num.standby.replicas": ("0", 5, True),
        "streams.initial.rebalance.delay.ms": ("3000", 5, True),
        "streams.assignment.interval.ms": ("1000", 5, True),
    }
    assert broker.alter((GROUP, "g", {session: "50000"}), (TOPIC, "t", {"retention.ms": "9"})) == []
    kinds = {kind: payload["topics"] for kind, payload, *_ in broker.requested}
    assert kinds["alter_access"] == [{"name": "g", "kind": "group", "value": {session: "50000"}}]
    broker.respond()
    broker.respond()
    assert [r.error_code for r in broker.reported.pop().responses] == [0, 0]
    broker.image.apply(AccessChanged("group", "g", 1, {session: "50000"}))
    entry = broker.entries(GROUP, "g")[session]
    assert (entry.value, entry.config_source) == ("50000", 8)
    assert synonyms_of(entry) == [(session, "50000", 8), ("group.consumer.session.timeout.ms", "45000", 5)]
    assert broker.entries(GROUP, "other")[session].value == "45000"
    broker.alter((GROUP, "g", {session: None}))
    assert broker.requested.pop()[1]["topics"] == [{"name": "g", "kind": "group", "value": None}], (
        "nothing is left of it"
    )
    for wrong in (
        {session: "100"},
        {session: "60001"},
        {beat: "fast"},
        {"share.session.timeout.ms": "44999"},
        {beat: "1" * 5000},
    ):
        (rejected,) = broker.alter((GROUP, "g", wrong))
        assert rejected.error_code == 40, wrong
    (rejected,) = broker.alter((GROUP, "", {session: "50000"}))
    assert rejected.error_code == 42
    assert broker.requested == []
