"""Responses of brokers, ZooKeeper and a schema registry, and the rows that only they or users make: for pages on seeded rows, without a cluster."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

    from tests.unit.controlplane.world import World

ADMINISTRATOR, TEAM = "administrator", "team"
TEAM_ROLES = (("topic", "prefixed", "orders"), ("group", "literal", "billing"), ("broker", "literal", "1"))
"""Role bindings of TEAM: (type, pattern type, name). With WEIR_VIEW_BY_ROLE it sees nothing else."""
MINUTE_MS = 60_000


def install(world: World) -> None:
    """Everything below, for the life of the process."""
    import pytest

    patch = pytest.MonkeyPatch()
    half_messages(patch, world)
    share_groups(patch)
    transactions(patch, world)
    clients_and_configs(patch)
    directories(patch)
    zookeeper(patch)
    messages(patch)
    offset_resets(patch)
    kept_rows()


def half_messages(patch: pytest.MonkeyPatch, world: World) -> None:
    """Undecided messages of the topic checkout. The brokers are asked as for delayed messages."""
    from controlplane.clients import half_messages as client
    from controlplane.models import Topic
    from tests.unit.controlplane.half_responses import HalfResponses, Message

    world.topic("checkout", (1, 2), (2, 3))
    world.topic("checkout.half", (1, 2), (2, 3), configs={"weir.half.topic": "checkout"})
    world.project()
    Topic.objects.filter(name="checkout.half").update(configs={"weir.half.topic": "checkout"})
    now = time.time_ns() // 1_000_000
    responses = HalfResponses(
        {
            p: [
                Message(
                    half_id=f"order-{4711 + 2 * n + p}".encode(),
                    offset=100 + n,
                    appended_ms=now - MINUTE_MS * (40 - 3 * n),
                    checks=15 if n == 0 else 5 - n // 3,
                    expiring=n == 0,
                )
                for n in range(12)
            ]
            for p in range(2)
        }
    )
    patch.setattr(client, "fetch_undecided", responses.undecided)


def share_groups(patch: pytest.MonkeyPatch) -> None:
    from tests.unit.controlplane.share_group_responses import patch_responses, records_in_flight

    found = patch_responses(patch)
    found.groups = {
        "mail": {("invoices", 0): (120, 7), ("invoices", 1): (-1, -1)},
        "refunds": {("orders", n): (40 * n, 0) for n in range(3)},
    }
    found.members = {"mail": ["mail-1-6f2c", "mail-2-90ab"]}
    found.in_flight["mail"] = [
        records_in_flight(
            "invoices", 0, acquired={"mail-1-6f2c": 187, "mail-2-90ab": 5}, lock_ms=12_000, redelivery=8, in_flight=200
        )
    ]


def transactions(patch: pytest.MonkeyPatch, world: World) -> None:
    from controlplane.clients import transactions as client
    from controlplane.domain.transactions import DescribedTransaction, PartitionTransaction
    from controlplane.selectors import transactions as selectors
    from tests.unit.controlplane.transaction_responses import TransactionResponses

    now = time.time_ns() // 1_000_000
    world.topic("__transaction_state", *[(n % 4 + 1, (n + 1) % 4 + 1, (n + 2) % 4 + 1) for n in range(4)])
    world.project()
    found = TransactionResponses(world)
    found.coordinators = {
        1: [
            DescribedTransaction("billing-1", "Ongoing", 4000, 3, 60_000, now - 25 * MINUTE_MS, (("orders", 0),)),
            DescribedTransaction("billing-2", "Empty", 4001, 0, 60_000, None, ()),
        ],
        2: [DescribedTransaction("shop/checkout-7", "CompleteCommit", 4002, 12, 60_000, None, ())],
    }
    hanging = PartitionTransaction("orders", 1, 2, 4711, 2, 0, 1234, now - 90 * MINUTE_MS)
    found.open = {2: [hanging]}
    patch.setattr(selectors, "call_all", found.ask)
    patch.setattr(client, "list_transactions", found.list)
    patch.setattr(client, "describe_transactions", lambda connection, ids: found.describe(connection, ids))
    patch.setattr(client, "coordinated_partitions", lambda connection, probes: found.coordinated_partitions(connection))
    patch.setattr(client, "timeout_ms_max", lambda connection, broker_id: 900_000)
    patch.setattr(client, "scan_partitions", found.scan)


def clients_and_configs(patch: pytest.MonkeyPatch) -> None:
    from controlplane.clients.all_brokers import BrokerResponse
    from controlplane.domain.broker_config import BrokerConfigSource, ReportedConfig
    from controlplane.selectors import broker_configs, group_configs
    from tests.unit.controlplane.config_broker import ConfigBroker
    from tests.unit.controlplane.selectors.test_clients import WRITE, client, failed_login, patch_responses, rejection

    java = {"software_name": "apache-kafka-java", "software_version": "4.1.0"}
    long = "User:CN=deployment-pipeline.production.example.com,OU=Data Platform,O=Example,C=DE"
    wrote = {"produced_bytes": 48_000_000_000, "produced_bytes_per_second": 1_250_000.0}
    read = {"fetched_bytes": 7_300_000, "fetched_bytes_per_second": 11_900.0}
    shop = client("shop", 2_500_000, connections=4, idle_ms=20, requests_per_second=310.0, **java, **wrote)
    reader = client("slow-reader-client", 12_000, principal="User:billing", host="10.0.0.2", **read)
    member = client(
        "billing-client",
        90,
        **java,
        host="127.0.0.1",
        fetched_bytes=48_100_000_000,
        fetched_bytes_per_second=1_240_000.0,
    )
    patch_responses(
        patch,
        {
            1: [shop, client("fulfilment-shipment-tracking", 90, principal=long, host="10.1.200.17")],
            2: [shop, reader, member],
            3: [client("broker-1", is_broker=True, principal="User:weir")],
        },
        rejections={
            1: [
                rejection("10.1.200.17", "fulfilment-shipment-tracking", "unauthorized", 1_930, 400, **WRITE),
                rejection("10.0.0.77", "", "authentication_failed", 12, 90_000),
            ],
            2: [rejection("10.1.200.17", "fulfilment-shipment-tracking", "unauthorized", 44, 3_000, **WRITE)],
        },
        logins={
            1: [
                failed_login("billing", "wrong_password", 9, 90_000, client_id="", host="10.0.0.77"),
                failed_login(
                    "shipment-tracking.production", "unknown_user", 3, 120_000, client_id="", host="10.0.0.77"
                ),
            ]
        },
    )

    def values(broker_id: int) -> dict[str, ReportedConfig]:
        file, default = BrokerConfigSource.FILE, BrokerConfigSource.DEFAULT
        found = [
            ReportedConfig("max.connections", str(900 + broker_id), file, "2147483647", False, False, "Limit."),
            ReportedConfig("log.retention.ms", "604800000", default, "604800000", False, False, "Age of records."),
            ReportedConfig("log.segment.bytes", "1073741824", default, "1073741824", False, False, "Segment size."),
            ReportedConfig("ssl.key.password", None, file, None, True, True, "Password of the key."),
        ]
        return {c.name: c for c in found}

    patch.setattr(
        broker_configs,
        "call_brokers",
        lambda brokers, call: [BrokerResponse(b.broker_id, values(b.broker_id)) for b in brokers],
    )
    own = {"share.record.lock.duration.ms": "20000", "weir.share.key.order.enable": "true"}
    broker: Any = ConfigBroker({"mail": own})
    patch.setattr(group_configs, "call_brokers", lambda brokers, call: [BrokerResponse(1, call(broker))])


def directories(patch: pytest.MonkeyPatch) -> None:
    from controlplane.domain.log_dirs import LogDirState, ReportedLogDir, ReportedReplica
    from tests.unit.controlplane.log_dir_responses import reporting

    here = tuple(ReportedReplica("orders", n, 7_300_000, 0, False) for n in range(3))
    there = (ReportedReplica("flights", 0, 48_000_000, 0, False), ReportedReplica("orders", 1, 2_100_000, 70, True))
    gigabyte = 10**9
    reporting(patch).dirs = [
        ReportedLogDir("/data/disk-1", LogDirState.HEALTHY, 500 * gigabyte, 12 * gigabyte, here),
        ReportedLogDir("/data/disk-2", LogDirState.HEALTHY, 500 * gigabyte, 420 * gigabyte, there),
        ReportedLogDir("/data/disk-3", LogDirState.FAILED, None, None, ()),
    ]


def zookeeper(patch: pytest.MonkeyPatch) -> None:
    from django.conf import settings

    from controlplane.clients.zookeeper_servers import ServerResponse
    from controlplane.clients.zookeeper_status import parse_status
    from controlplane.domain.zookeeper_server import ServerProblem
    from tests.unit.controlplane.clients.test_zookeeper_status import LEADER
    from tests.unit.controlplane.selectors.test_zookeeper import FOLLOWER, patch_responses
    from tests.unit.registry_server import running_registry

    patch_responses(
        patch,
        settings,
        ServerResponse("zk-1", 2181, parse_status(LEADER)),
        ServerResponse("zk-2", 2181, parse_status(FOLLOWER)),
        ServerResponse("zk-3", 2181, None, ServerProblem.UNREACHABLE, "Connection refused"),
    )
    registry = running_registry()
    state = registry.__enter__()
    _KEPT.append(registry)  # its server ends with the generator
    settings.WEIR = replace(settings.WEIR, schema_registry_url=state.url)
    for fields in (["id"], ["id", "amount"]):
        named = [{"name": n, "type": "long"} for n in fields]
        state.add("orders-value", {"type": "record", "name": "Order", "fields": named})


_KEPT: list[Any] = []


def messages(patch: pytest.MonkeyPatch) -> None:
    """Records of the topic orders, beside the dead letters of `served.dead_letters`. Other topics have none."""
    from brokerd.wire.records import Record
    from controlplane.selectors import messages as selectors
    from controlplane.selectors.messages import MessageRead, PartitionRead, message_row

    now, read_dead_letters = time.time_ns() // 1_000_000, selectors.read_messages

    def read(query: Any, resume: str = "", *, renderer: Any, plain: Any) -> MessageRead:
        if query.topic.endswith(".dead"):
            return read_dead_letters(query, resume, renderer=renderer, plain=plain)
        if query.topic != "orders":
            return MessageRead(query.topic)
        records = []
        for n in range(12):
            order = {"id": 4711 + n, "amount": 1900 * n, "items": [{"sku": f"A-{n}-{i}", "count": i} for i in range(6)]}
            value = json.dumps(order if n % 4 else {"id": n}).encode()
            headers = (("trace", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),) if n % 3 == 0 else ()
            records.append((n % 3, Record(3990 + n, now - 400 * n, f"customer-{n}".encode(), value, headers)))
        rows = [message_row(partition, record, renderer) for partition, record in records]
        ranges = [PartitionRead(p, 0, 4000 + p, 4000 + p) for p in range(2)]
        missing = PartitionRead(2, None, None, None, "no_leader", "Partition 2 was not read to the end.")
        return MessageRead(
            query.topic,
            rows,
            [*ranges, missing],
            scanned=12,
            found=12,
            complete=False,
            stopped="limit",
            resume="TOKEN",
        )

    patch.setattr(selectors, "read_messages", read)


def offset_resets(patch: pytest.MonkeyPatch) -> None:
    """Reset 1 of the group nightly is a preview, reset 2 is applied."""
    from controlplane.domain.offset_reset_types import CommittedOffset, LogRange, ResetSpec, ResetTarget
    from controlplane.services import offset_resets as services
    from tests.unit.controlplane.group_world import group_world

    world = group_world(patch)
    world.offsets["nightly"] = {("payments.audit", 0): CommittedOffset(50), ("payments.audit", 1): CommittedOffset(90)}
    world.logs |= {("payments.audit", n): LogRange(10, 100) for n in range(2)}
    spec = ResetSpec(ResetTarget.EARLIEST, topics=("payments.audit",))
    services.preview("nightly", spec, actor="alice")
    applied = services.preview("nightly", spec, actor="alice")
    services.apply(applied.pk, actor="alice", comment="the audit of May is repeated")


def kept_rows() -> None:
    """Rows that users make: a token, masking rules, a silence, notification channels, a saved view, role bindings."""
    from django.contrib.auth import get_user_model
    from django.utils import timezone

    from controlplane.domain.notification_message import sample_message
    from controlplane.domain.token_scopes import TokenScope
    from controlplane.models import NotificationDelivery
    from controlplane.services import incidents, masking, notification_channels, role_bindings, saved_views
    from controlplane.services.api_tokens import create_token

    me = get_user_model().objects.get(username=ADMINISTRATOR)
    actor: dict[str, Any] = {"actor": me.get_username()}
    create_token(
        "deployment pipeline",
        scope=TokenScope.READ,
        limit=TokenScope.READ,
        expires_at=timezone.now() + timedelta(days=40),
        **actor,
    )
    masking.create_rule(topics="pay*", target="value", field="$.card", comment="card numbers", **actor)
    masking.create_rule(topics="*", target="header", field="authorization", **actor)
    incidents.silence("group_falling_behind", "slow-reader", 240, comment="its team knows", **actor)
    hook = notification_channels.create_channel(
        name="on call", kind="webhook", url="https://hooks.example.com/weir/9f2c1a77", secret="only a seed", **actor
    )
    for n, (state, status, response) in enumerate(
        (("delivered", 200, "accepted"), ("failed", 503, "upstream connect error or disconnect before headers"))
    ):
        now = timezone.now()
        NotificationDelivery.objects.create(
            channel=hook,
            incident=f"broker_down:{n + 1}",
            event="triggered",
            severity="critical",
            message=replace(sample_message("", "", "", "", ""), text=f"Broker {n + 1} is down."),
            state=state,
            status=status,
            answer=response,
            attempts=1 + 4 * n,
            due_at=now,
            finished_at=now,
        )
    saved_views.save_view(me.pk, "Topics with problems", "/topics/?state=problems")
    for kind, pattern, name in TEAM_ROLES:
        role_bindings.create_binding(
            user=TEAM,
            role="viewer",
            resource_type=kind,
            pattern_type=pattern,
            resource_name=name,
            comment="team of the shop",
            **actor,
        )
