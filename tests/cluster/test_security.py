"""Secured listeners with foreign clients, and brokers that connect to each other over TLS."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.abc
import aiokafka.helpers
import jwt
import kafka
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.asymmetric import rsa
from kafka.net.sasl.oauth import AbstractTokenProvider

from brokerd.wire import framing
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from tests.cluster.local import LocalCluster, free_port, wait_for
from tests.pki import Authority

PASSWORD = 'a "long" password; with <all>'
RECORDS = [f"record {i}".encode() * (i % 50 + 1) for i in range(400)]


class SecuredCluster(LocalCluster):
    """Two brokers with the listeners PLAINTEXT (for steps that do not concern security), BROKERS (mutual TLS and SCRAM) and those for clients."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, brokers=2)
        self.authority = Authority(folder / "pki")
        self.pem = self.authority.issue("broker", "/O=Weir/CN=broker")
        self.client = self.authority.issue("alice", "/O=Weir/CN=alice")
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        jwk = {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key())), "kid": "one", "alg": "RS256"}
        (folder / "keys.json").write_text(json.dumps({"keys": [jwk]}))
        self.listener_ports = {
            protocol: {i: free_port() for i in self.ports} for protocol in ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
        }
        for i, plain in self.ports.items():
            more = "".join(f",{protocol}://127.0.0.1:{ports[i]}" for protocol, ports in self.listener_ports.items())
            self.own_settings[i] = {
                "listeners": f"PLAINTEXT://127.0.0.1:{plain},BROKERS://127.0.0.1:0{more}",
                "listener.security.protocol.map": "BROKERS:SASL_SSL",
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
                "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
                "listener.name.brokers.scram-sha-512.sasl.jaas.config": 'org.apache.kafka.common.security.scram.ScramLoginModule required username="broker" password="among us";',
                "sasl.oauthbearer.jwks.endpoint.url": (folder / "keys.json").as_uri(),
                "sasl.oauthbearer.expected.audience": "weir",
                "connections.max.reauth.ms": "4000",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS;User:broker;User:alice;User:CN=alice,O=Weir",
                "inter.broker.listener.name": "BROKERS",
                "listener.name.brokers.ssl.client.auth": "required",
                "ssl.client.auth": "requested",
                "ssl.keystore.location": str(self.pem),
                "ssl.truststore.location": str(self.authority.ca),
                "min.insync.replicas": "2",
            }

    def bootstrap_of(self, protocol: str) -> str:
        return ",".join(f"127.0.0.1:{p}" for p in self.listener_ports[protocol].values())

    def token(self, user: str, seconds: int = 600, audience: str = "weir") -> str:
        claims = {"sub": user, "exp": int(time.time()) + seconds, "aud": audience}
        return str(jwt.encode(claims, self.key, algorithm="RS256", headers={"kid": "one"}))


@pytest.fixture(scope="module")
def secured_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with SecuredCluster(tmp_path_factory.mktemp("secured")) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
        for user, password in (("broker", "among us"), ("alice", PASSWORD), ("bob", PASSWORD)):
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
                upsertion = UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), password.encode())
                for done in admin.alter_user_scram_credentials([upsertion]).values():
                    done.result(60)
        yield running


def settings_of_librdkafka(secured: SecuredCluster, how: str, password: str = PASSWORD) -> dict[str, Any]:
    protocol, _, mechanism = how.partition("/")
    settings: dict[str, Any] = {
        "bootstrap.servers": secured.bootstrap_of(protocol),
        "security.protocol": protocol.lower(),
        "log_level": 0,
        "ssl.ca.location": str(secured.authority.ca),
    }
    if mechanism == "OAUTHBEARER":
        settings |= {"sasl.mechanisms": mechanism, "oauth_cb": lambda _: (secured.token("alice"), time.time() + 600)}
    elif mechanism:
        settings |= {"sasl.mechanisms": mechanism, "sasl.username": "alice", "sasl.password": password}
    else:
        settings |= {"ssl.certificate.location": str(secured.client), "ssl.key.location": str(secured.client)}
    return settings


def settings_of_python(secured: SecuredCluster, how: str, tokens: type) -> dict[str, Any]:
    protocol, _, mechanism = how.partition("/")
    settings: dict[str, Any] = {
        "bootstrap_servers": secured.bootstrap_of(protocol).split(","),
        "security_protocol": protocol,
    }
    if mechanism == "OAUTHBEARER":

        class Provider(tokens):  # type: ignore[misc]
            def token(self) -> Any:
                return secured.token("alice")

        settings |= {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": Provider()}
    elif mechanism:
        settings |= {"sasl_mechanism": mechanism, "sasl_plain_username": "alice", "sasl_plain_password": PASSWORD}
    return settings


WAYS = (
    "SSL",
    "SASL_SSL/SCRAM-SHA-512",
    "SASL_PLAINTEXT/SCRAM-SHA-256",
    "SASL_SSL/PLAIN",
    "SASL_PLAINTEXT/OAUTHBEARER",
)


@pytest.mark.cluster
@pytest.mark.parametrize("how", WAYS)
def test_confluent_kafka(secured_cluster: SecuredCluster, how: str) -> None:
    topic = f"t{uuid.uuid4().hex}"
    settings = settings_of_librdkafka(secured_cluster, how)
    producer = Producer({**settings, "acks": "all", "enable.idempotence": True})
    for record in RECORDS:
        producer.produce(topic, record, key=b"k")
    assert producer.flush(60) == 0
    reader = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    reader.subscribe([topic])
    seen: list[bytes] = []
    wait_for(lambda: seen.extend(m.value() for m in reader.consume(500, 0.5)) or len(seen) >= len(RECORDS), "records")
    assert seen == RECORDS
    reader.close()
    reported = AdminClient(settings).list_topics(timeout=30).brokers
    assert {b.port for b in reported.values()} == set(secured_cluster.listener_ports[how.partition("/")[0]].values()), (
        "metadata does not have the addresses of the client's listener"
    )


@pytest.mark.cluster
@pytest.mark.parametrize("how", WAYS)
def test_kafka_python(secured_cluster: SecuredCluster, how: str) -> None:
    topic = f"t{uuid.uuid4().hex}"
    settings = settings_of_python(secured_cluster, how, AbstractTokenProvider)
    if "SSL" in how:
        settings |= {"ssl_cafile": str(secured_cluster.authority.ca), "ssl_certfile": str(secured_cluster.client)}
    producer = kafka.KafkaProducer(**settings, acks="all")
    for record in RECORDS:
        producer.send(topic, record, key=b"k")
    producer.flush(60)
    producer.close()
    reader = kafka.KafkaConsumer(**settings, group_id=topic, auto_offset_reset="earliest", consumer_timeout_ms=60_000)
    reader.partitions_for_topic(topic)  # metadata is loaded before the join: see test_rebalance
    reader.subscribe([topic])
    seen = [next(reader).value for _ in RECORDS]
    assert seen == RECORDS
    reader.close()


@pytest.mark.cluster
@pytest.mark.parametrize("how", WAYS)
def test_aiokafka(secured_cluster: SecuredCluster, how: str) -> None:
    topic = f"t{uuid.uuid4().hex}"

    class Tokens(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return secured_cluster.token("alice")

    settings = settings_of_python(secured_cluster, how, object)
    if "OAUTH" in how:
        settings["sasl_oauth_token_provider"] = Tokens()
    if "SSL" in how:
        settings["ssl_context"] = aiokafka.helpers.create_ssl_context(
            cafile=str(secured_cluster.authority.ca), certfile=str(secured_cluster.client)
        )

    async def walk() -> list[bytes]:
        producer = aiokafka.AIOKafkaProducer(**settings, acks="all")
        await producer.start()
        for record in RECORDS:
            await producer.send(topic, record, key=b"k")
        await producer.stop()
        reader = aiokafka.AIOKafkaConsumer(topic, **settings, group_id=topic, auto_offset_reset="earliest")
        await reader.start()
        seen = [(await asyncio.wait_for(reader.getone(), 60)).value for _ in RECORDS]
        await reader.stop()
        return seen

    assert asyncio.run(walk()) == RECORDS


@pytest.mark.cluster
@pytest.mark.parametrize("how", [w for w in WAYS if "OAUTH" not in w])
def test_kcat(secured_cluster: SecuredCluster, how: str) -> None:
    topic = f"t{uuid.uuid4().hex}"
    options = [x for k, v in settings_of_librdkafka(secured_cluster, how).items() for x in ("-X", f"{k}={v}")]
    text = b"\n".join(RECORDS)
    subprocess.run(["kcat", *options, "-P", "-t", topic, "-k", "k"], input=text, check=True, timeout=60)
    read = subprocess.run(
        ["kcat", *options, "-C", "-t", topic, "-o", "beginning", "-e", "-q"],
        check=True,
        timeout=60,
        capture_output=True,
    )
    assert read.stdout.rstrip(b"\n") == text


@pytest.mark.cluster
def test_brokers_replicate_over_tls(secured_cluster: SecuredCluster) -> None:
    topic = f"t{uuid.uuid4().hex}"
    producer = Producer({"bootstrap.servers": secured_cluster.bootstrap, "acks": "all", "log_level": 0})
    errors: list[object] = []
    for record in RECORDS:
        producer.produce(topic, record, on_delivery=lambda e, m: errors.append(e) if e else None)
    assert producer.flush(60) == 0
    assert not errors
    state = secured_cluster.image.topic_named(topic)
    assert state is not None
    assert all(len(p.isr) == 2 for p in state.partitions.values()), (
        "with min.insync.replicas=2 the follower has the records"
    )
    reported = {e.listener: e.protocol for e in secured_cluster.image.brokers[1].endpoints}
    assert reported == {"PLAINTEXT": "PLAINTEXT", "BROKERS": "SASL_SSL"} | {
        d: d for d in secured_cluster.listener_ports
    }


@pytest.mark.cluster
@pytest.mark.parametrize("how", [w for w in WAYS if "SCRAM" in w or "PLAIN" in w.partition("/")[2]])
def test_a_wrong_password_is_rejected_and_reported(secured_cluster: SecuredCluster, how: str) -> None:
    received: list[KafkaError] = []
    client = Producer({**settings_of_librdkafka(secured_cluster, how, "guess"), "error_cb": received.append})
    wait_for(
        lambda: client.poll(0.1) or [e for e in received if e.code() == KafkaError._AUTHENTICATION], "the rejection"
    )


@pytest.mark.cluster
def test_a_client_reauthenticates_and_continues(secured_cluster: SecuredCluster) -> None:
    """connections.max.reauth.ms is 4 s here. librdkafka authenticates again in time, on the same connections."""
    topic = f"t{uuid.uuid4().hex}"
    errors: list[object] = []
    settings = settings_of_librdkafka(secured_cluster, "SASL_SSL/SCRAM-SHA-256")
    producer = Producer({**settings, "error_cb": errors.append})
    until = time.monotonic() + 9
    while time.monotonic() < until:
        producer.produce(topic, b"x", on_delivery=lambda e, m: errors.append(e) if e else None)
        producer.poll(0.2)
    assert producer.flush(30) == 0
    assert not errors


@pytest.mark.cluster
def test_no_password_is_written_anywhere(secured_cluster: SecuredCluster) -> None:
    found = [
        path
        for path in secured_cluster.folder.rglob("*")
        if path.is_file()
        and not path.name.endswith(".properties")
        and any(p in path.read_bytes() for p in (PASSWORD.encode(), b"among us"))
    ]
    assert found == []
    value = secured_cluster.image.access["scram"]["SCRAM-SHA-256:alice"][1]
    assert value is not None
    assert set(value) == {"salt", "iterations", "stored_key", "server_key"}


def as_bob(secured: SecuredCluster) -> dict[str, Any]:
    return {**settings_of_librdkafka(secured, "SASL_PLAINTEXT/SCRAM-SHA-256"), "sasl.username": "bob"}


def produce_record(producer: Producer, topic: str) -> int | None:
    """The error code of one record; None if it was written."""
    reported: list[Any] = []
    try:
        producer.produce(topic, b"x", on_delivery=lambda e, m: reported.append(e))
    except KafkaException as e:  # the client caches the topic's authorization error
        producer.poll(0.2)
        return int(e.args[0].code())
    assert producer.flush(60) == 0
    return reported[0].code() if reported[0] is not None else None


@pytest.mark.cluster
def test_acls_take_effect_within_a_second_and_so_does_their_deletion(secured_cluster: SecuredCluster) -> None:
    admin = AdminClient({"bootstrap.servers": secured_cluster.bootstrap, "log_level": 0})
    topic, group = f"p-{uuid.uuid4().hex}", uuid.uuid4().hex
    admin.create_topics([NewTopic(topic, 1, 2)])[topic].result(60)
    bob = as_bob(secured_cluster)
    producer = Producer({**bob, "message.timeout.ms": 30_000})
    assert produce_record(producer, topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED

    def acl(kind: ResourceType, name: str, pattern: ResourcePatternType, operation: AclOperation) -> AclBinding:
        return AclBinding(kind, name, pattern, "User:bob", "*", operation, AclPermissionType.ALLOW)

    write = acl(ResourceType.TOPIC, "p-", ResourcePatternType.PREFIXED, AclOperation.WRITE)
    read = acl(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, AclOperation.READ)
    grouped = acl(ResourceType.GROUP, group, ResourcePatternType.LITERAL, AclOperation.READ)
    for done in admin.create_acls([write, read, grouped]).values():
        done.result(60)
    allowed = time.monotonic()
    wait_for(lambda: produce_record(producer, topic) is None, "bob to be allowed")
    took = time.monotonic() - allowed
    found = admin.describe_acls(
        AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, "User:bob", None, AclOperation.ANY, AclPermissionType.ANY
        )
    ).result(60)
    assert set(found) == {write, read, grouped}

    reader = Consumer({**bob, "group.id": group, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 500})
    reader.subscribe([topic])
    wait_for(lambda: (m := reader.poll(0.5)) is not None and not m.error(), "bob to read")
    gone = admin.delete_acls(
        [
            AclBindingFilter(
                ResourceType.TOPIC,
                topic,
                ResourcePatternType.LITERAL,
                "User:bob",
                None,
                AclOperation.READ,
                AclPermissionType.ANY,
            )
        ]
    )
    assert [b for f in gone.values() for b in f.result(60)] == [read]
    removed = time.monotonic()

    def is_rejected() -> bool:
        produce_record(Producer({"bootstrap.servers": secured_cluster.bootstrap, "log_level": 0}), topic)
        m = reader.poll(0.2)
        return m is not None and m.error() is not None and m.error().code() == KafkaError.TOPIC_AUTHORIZATION_FAILED

    wait_for(is_rejected, "bob to be rejected")
    assert max(took, time.monotonic() - removed) < 30, (
        "generous for two busy cores: the metadata log delivers an ACL within about ten milliseconds"
    )
    reader.close()


@pytest.mark.cluster
def test_admin_requests_without_permission_are_rejected(secured_cluster: SecuredCluster) -> None:
    bob = AdminClient(as_bob(secured_cluster))
    name = f"t{uuid.uuid4().hex}"
    with pytest.raises(KafkaException) as e:
        bob.create_topics([NewTopic(name, 1, 1)])[name].result(60)
    assert e.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    everything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    for done in bob.delete_acls([everything]).values():
        with pytest.raises(KafkaException) as e:
            done.result(60)
        assert e.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    assert name not in bob.list_topics(timeout=30).topics
    cluster = bob.describe_cluster(include_authorized_operations=True).result(60)
    assert list(cluster.authorized_operations or []) == []


@pytest.mark.cluster
def test_brokers_report_whom_they_rejected_and_why(secured_cluster: SecuredCluster) -> None:
    topic = f"t{uuid.uuid4().hex}"
    bob = {**as_bob(secured_cluster), "client.id": "bobs-app"}
    admin = AdminClient({"bootstrap.servers": secured_cluster.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, 1, 2)])[topic].result(60)
    assert (
        produce_record(Producer({**bob, "message.timeout.ms": 30_000}), topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    )
    guess = settings_of_librdkafka(secured_cluster, "SASL_SSL/PLAIN", "guess")
    guessing = Producer({**guess, "client.id": "guess"})
    scram_guess = settings_of_librdkafka(secured_cluster, "SASL_PLAINTEXT/SCRAM-SHA-256", "guess")
    unknown = Producer({**scram_guess, "sasl.username": "nobody", "client.id": "unknown"})
    with socket.create_connection(("127.0.0.1", secured_cluster.listener_ports["SSL"][1]), 60) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert sock.recv(1) in (b"", b"\x15"), "closed, with a TLS alert or without"

    def described_log_dirs() -> list[m.DescribeLogDirsResponse]:
        guessing.poll(0.1)
        unknown.poll(0.1)
        body = m.DescribeLogDirsRequest(topics=[], rejections=True)
        return [request(secured_cluster, ApiKey.DESCRIBE_LOG_DIRS, 4, body, broker) for broker in secured_cluster.ports]

    def rejected_clients() -> set[tuple[str, ...]]:
        responses = described_log_dirs()
        return {
            (r.principal, r.client_id, r.reason, r.operation, r.resource_type, r.resource_name)
            for response in responses
            for r in response.rejections
            if r.host == "127.0.0.1"
        }

    expected = {
        ("User:bob", "bobs-app", "unauthorized", "DESCRIBE", "TOPIC", topic),
        ("", "guess", "authentication_failed", "", "", ""),
        ("", "", "tls_failed", "", "", ""),
    }
    wait_for(lambda: expected <= rejected_clients(), "the rejections")

    def logins() -> set[tuple[str, ...]]:
        responses = described_log_dirs()
        assert "guess" not in {x.user for response in responses for x in response.failed_logins}, "the password"
        return {(x.client_id, x.user, x.mechanism, x.failure) for a in responses for x in a.failed_logins}

    tried = {
        ("guess", guess["sasl.username"], "PLAIN", "wrong_password"),
        ("unknown", "nobody", "SCRAM-SHA-256", "unknown_user"),
    }
    wait_for(lambda: tried <= logins(), "the failed logins")


def request(secured: SecuredCluster, key: int, version: int, body: Any, broker: int = 1) -> Any:
    """A request that these clients cannot send."""
    with socket.create_connection(("127.0.0.1", secured.ports[broker]), 60) as sock:
        sock.sendall(framing.encode_request(key, version, 1, "test", body))
        stream = sock.makefile("rb")
        frame = stream.read(int.from_bytes(stream.read(4), "big"))
    return framing.decode_response(key, version, memoryview(frame))[1]


@pytest.mark.cluster
def test_a_client_over_its_quota_is_throttled_and_gets_the_throttle_time(secured_cluster: SecuredCluster) -> None:
    client, topic = f"c{uuid.uuid4().hex}", f"t{uuid.uuid4().hex}"
    r = m.AlterClientQuotasRequest
    entity = [r.EntityData(entity_type="client-id", entity_name=client)]
    limited = r(entries=[r.EntryData(entity=entity, ops=[r.OpData(key="producer_byte_rate", value=20_000.0)])])
    assert request(secured_cluster, ApiKey.ALTER_CLIENT_QUOTAS, 1, limited).entries[0].error_code == 0
    reported = request(secured_cluster, ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, m.DescribeClientQuotasRequest())
    assert [(e.entity[0].entity_name, e.values[0].value) for e in reported.entries] == [(client, 20_000.0)]
    pauses: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": secured_cluster.bootstrap,
            "client.id": client,
            "linger.ms": 0,
            "batch.size": 50_000,
            "log_level": 0,
            "throttle_cb": lambda event: pauses.append(event.throttle_time),
        }
    )
    for _ in range(8):
        producer.produce(topic, os.urandom(40_000), partition=0)
    assert producer.flush(80) == 0
    wait_for(lambda: producer.poll(0.1) or pauses, "a throttle time in a response")
    assert max(pauses) > 0
