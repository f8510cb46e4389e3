"""The files of each machine: settings that the processes accept, modes, and rejections."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.weir.deployment.test_inventory import EXAMPLE
from weir.deployment.command import template
from weir.deployment.files import MachineFile, environment, files_of, started_units
from weir.deployment.inventory import PLACEHOLDER, InvalidInventory, Inventory, Machine, parse


@pytest.fixture
def inventory() -> Inventory:
    return parse(tomllib.loads(EXAMPLE.replace(PLACEHOLDER, "s3cret")))


def files(inventory: Inventory, name: str) -> dict[str, MachineFile]:
    (machine,) = [m for m in inventory.machines if m.name == name]
    return {f.path: f for f in files_of(inventory, machine, template)}


def test_each_machine_gets_the_files_of_its_roles_only(inventory: Inventory) -> None:
    a, b, c = (files(inventory, m.name) for m in inventory.machines)
    assert "etc/redis/weir.conf" in a and "etc/weir/weir.env" not in a
    assert b.keys() - c.keys() == {"etc/systemd/system/weir-spark-worker.service"}
    assert a["etc/weir/units"].text.split() == ["weir-zookeeper.service", "weir-broker.service"]
    assert c["etc/weir/units"].text.split()[:3] == [
        "weir-zookeeper.service",
        "weir-controller@3.service",
        "weir-broker.service",
    ]
    assert b["etc/weir/weir.env"] == c["etc/weir/weir.env"]


def test_the_files_name_each_other_s_machines(inventory: Inventory) -> None:
    b = files(inventory, "b")
    assert {
        "broker.id=2",
        "broker.rack=rack-2",
        "failure.domain=b",
        "listeners=PLAINTEXT://10.0.0.2:9092",
        "zookeeper.connect=10.0.0.1:2181,10.0.0.2:2181,10.0.0.3:2181",
        "weir.metrics.listener=10.0.0.2:9404",
    } <= set(b["etc/weir/broker.properties"].text.splitlines())
    assert b["var/lib/weir/zookeeper/myid"].text == "2\n"
    assert "clientPortAddress=10.0.0.2\nserver.1=10.0.0.1:2888:3888\n" in b["etc/weir/zoo.cfg"].text
    assert "WEIR_ALLOWED_HOSTS='weir.example,10.0.0.2,10.0.0.3,127.0.0.1,localhost'\n" in b["etc/weir/weir.env"].text
    assert "server_name weir.example;" in b["etc/nginx/conf.d/weir.conf"].text
    assert "@" not in b["etc/nginx/conf.d/weir.conf"].text.replace("`weir configure` replaces @", "")
    a = files(inventory, "a")
    assert "bind 127.0.0.1 10.0.0.1\nrequirepass s3cret\n" in a["etc/redis/weir.conf"].text
    assert a["etc/weir/pg_hba.conf"].text == "".join(
        f"hostssl weir weir {address}/32 scram-sha-256\n" for address in ("10.0.0.2", "10.0.0.3")
    )


def test_a_file_with_a_password_is_not_readable_by_others(inventory: Inventory) -> None:
    found = [f for m in inventory.machines for f in files_of(inventory, m, template)]
    secret = [f for f in found if "s3cret" in f.text]
    assert len(secret) == 3 and {f.mode for f in secret} == {0o640}


def test_settings_of_one_machine_replace_those_of_all(inventory: Inventory) -> None:
    a = inventory.machines[0]
    changed: Machine = replace(a, broker={"log.dirs": "/disk1/{id},/disk2/{rack}", "broker.rack": ""})
    text = {f.path: f for f in files_of(inventory, changed, template)}["etc/weir/broker.properties"].text
    assert "log.dirs=/disk1/1,/disk2/rack-1\n" in text and "broker.rack" not in text
    assert started_units(changed) == ["weir-zookeeper.service", "weir-broker.service"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"CELERY_URL": "x"}, "[settings] CELERY_URL is not a variable of Weir"),
        ({"WEIR_LOG_LEVEL": "LOUD"}, "[settings] WEIR_LOG_LEVEL is 'LOUD'; allowed: DEBUG"),
        ({"WEIR_SECRET_KEY": ""}, "[settings] WEIR_SECRET_KEY is missing; the processes of several machines share it"),
        ({"CHANNELS_REDIS_URL": ""}, "[settings] CHANNELS_REDIS_URL is missing"),
        ({"WEIR_TOKEN": "x"}, "[settings] WEIR_TOKEN is not set: The API token"),
    ],
)
def test_a_variable_that_a_process_would_reject_is_reported(
    settings: dict[str, str], message: str, inventory: Inventory
) -> None:
    with pytest.raises(InvalidInventory) as rejection:
        environment(replace(inventory, settings={**inventory.settings, **settings}))
    assert message in str(rejection.value)


@pytest.mark.parametrize(
    ("change", "machine", "message"),
    [
        ({"broker": {"log.dir": "/x"}}, "b", "[broker] of machine b: settings: unknown setting 'log.dir'"),
        ({"settings": {"CELERY_BROKER_URL": "redis://10.0.0.1"}}, "a", "CELERY_BROKER_URL has no password"),
    ],
)
def test_a_setting_that_a_server_would_reject_is_reported(
    change: dict[str, Any], machine: str, message: str, inventory: Inventory
) -> None:
    with pytest.raises(InvalidInventory) as rejection:
        files(replace(inventory, **change), machine)
    assert message in str(rejection.value)


def test_a_console_without_an_address_answers_to_every_name(inventory: Inventory) -> None:
    unnamed = replace(inventory, settings={k: v for k, v in inventory.settings.items() if k != "WEIR_CONSOLE_URL"})
    assert "server_name _;" in files(unnamed, "b")["etc/nginx/conf.d/weir.conf"].text


def test_a_secured_cluster_is_an_inventory_too(inventory: Inventory) -> None:
    """The settings of docs/how-to/secure-a-cluster.md, for all machines at once."""
    broker = {
        "listeners": "BROKERS://{address}:9093,SASL_SSL://{address}:9094",
        "listener.security.protocol.map": "BROKERS:SSL",
        "listener.name.brokers.ssl.client.auth": "required",
        "inter.broker.listener.name": "BROKERS",
        "ssl.keystore.location": "/etc/weir/tls/broker.pem",
        "ssl.truststore.location": "/etc/weir/tls/ca.pem",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:CN=broker-1;User:CN=broker-2;User:CN=broker-3;User:weir",
        "zookeeper.connect": "10.0.0.1:2182,10.0.0.2:2182,10.0.0.3:2182",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": "/etc/weir/tls/ca.pem",
        "zookeeper.set.acl": "true",
        "zookeeper.sasl.jaas.config": 'x required username="weir" password="s3cret";',
    }
    settings = {
        **inventory.settings,
        "WEIR_BOOTSTRAP": "10.0.0.1:9094,10.0.0.2:9094,10.0.0.3:9094",
        "WEIR_ZOOKEEPER": broker["zookeeper.connect"],
        "WEIR_KAFKA_CONFIG": "/etc/weir/client.properties",
        "WEIR_ZOOKEEPER_CONFIG": "/etc/weir/zookeeper.properties",
    }
    zookeeper = {
        "clientPort": "",
        "clientPortAddress": "",
        "secureClientPort": "2182",
        "secureClientPortAddress": "{address}",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": "/etc/weir/tls/zookeeper.pem",
    }
    found = files(replace(inventory, broker=broker, settings=settings, zookeeper=zookeeper), "c")
    zoo = found["etc/weir/zoo.cfg"].text
    assert "secureClientPortAddress=10.0.0.3\n" in zoo and "\nclientPort" not in zoo
    assert "\nserver.3=10.0.0.3:2888:3888\n" in zoo and "\ntickTime=2000\n" in zoo
    text = found["etc/weir/broker.properties"].text
    assert "listeners=BROKERS://10.0.0.3:9093,SASL_SSL://10.0.0.3:9094\n" in text
    assert "WEIR_BOOTSTRAP='10.0.0.1:9094,10.0.0.2:9094,10.0.0.3:9094'\n" in found["etc/weir/weir.env"].text


def test_the_control_plane_knows_how_many_brokers_there_are(inventory: Inventory) -> None:
    """With one machine the controller waited for two more brokers, so that no consumer group worked."""
    one = replace(inventory, machines=tuple(m for m in inventory.machines if m.name == "b"))
    assert environment(inventory)["WEIR_BROKERS"] == "3"
    assert environment(one)["WEIR_BROKERS"] == "1"
