"""A secured inventory: settings that the processes accept, no port without authentication, and rejections."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from brokerd.cluster.configs import BROKER_SYNONYMS
from brokerd.config import zookeeper_client
from brokerd.config.broker import BrokerConfig
from brokerd.config.kafka_client import ClientSettings
from tests.unit.weir.deployment.test_files import files
from tests.unit.weir.deployment.test_inventory import EXAMPLE
from weir.deployment.command import main
from weir.deployment.inventory import PLACEHOLDER, InvalidInventory, parse
from weir.deployment.security import broker_settings

PASSWORD = "sixteen-letters-and-more"
SECURITY = f'\n[security]\nzookeeper_password = "{PASSWORD}"\ncertificates = "generated"\n'
SECURED = EXAMPLE.replace(PLACEHOLDER, "s3cret").replace('"listeners" = "PLAINTEXT://{address}:9092"\n', "") + SECURITY


def lines(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#"))


def test_brokers_and_the_control_plane_use_certificates_and_clients_use_passwords() -> None:
    b = files(parse(tomllib.loads(SECURED)), "b")
    broker = lines(b["etc/weir/broker.properties"].text)
    assert broker["listeners"] == "BROKERS://10.0.0.2:9093,SASL_SSL://10.0.0.2:9094"
    assert broker["listener.name.brokers.ssl.client.auth"] == "required"
    assert broker["super.users"] == "User:CN=a;User:CN=b;User:CN=c"
    assert broker["zookeeper.connect"] == "10.0.0.1:2182,10.0.0.2:2182,10.0.0.3:2182"
    environment = b["etc/weir/weir.env"].text
    assert "WEIR_BOOTSTRAP='10.0.0.1:9093,10.0.0.2:9093,10.0.0.3:9093'\n" in environment
    assert "WEIR_KAFKA_CONFIG='/etc/weir/client.properties'\n" in environment
    assert "WEIR_ZOOKEEPER_CONFIG='/etc/weir/zookeeper.properties'\n" in environment
    assert f'user_weir="{PASSWORD}";' in b["etc/weir/jaas.conf"].text
    secret = [f for f in b.values() if PASSWORD in f.text]
    assert {f.path for f in secret} == {
        f"etc/weir/{n}" for n in ("broker.properties", "zookeeper.properties", "jaas.conf")
    }
    assert all(f.mode == 0o640 for f in secret)


def test_zookeeper_has_no_port_without_authentication() -> None:
    settings = lines(files(parse(tomllib.loads(SECURED)), "a")["etc/weir/zoo.cfg"].text)
    assert "clientPort" not in settings and "clientPortAddress" not in settings
    assert settings["secureClientPort"] == "2182" and settings["secureClientPortAddress"] == "10.0.0.1"
    assert settings["enforce.auth.enabled"] == "true" and settings["server.3"] == "10.0.0.3:2888:3888"


def test_the_processes_accept_the_written_files_with_the_written_certificates(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text(SECURED)
    assert main([str(tmp_path / "cluster.toml"), "--to", str(tmp_path / "out")]) == 0
    folder = tmp_path / "out" / "b" / "etc" / "weir"
    for name in ("broker.properties", "client.properties", "zookeeper.properties"):
        path = folder / name
        path.write_text(path.read_text().replace("/etc/weir", str(folder)))
    config = BrokerConfig.load(folder / "broker.properties", BROKER_SYNONYMS.__contains__)
    assert zookeeper_client.protection(config.values).owned
    assert zookeeper_client.load(folder / "zookeeper.properties").user == "weir"
    assert ClientSettings.load(folder / "client.properties").values["security.protocol"] == "SSL"


def test_the_super_users_are_the_machines_that_need_it() -> None:
    text = SECURED.replace(
        'roles = ["zookeeper", "broker", "postgresql", "redis"]', 'roles = ["zookeeper", "postgresql", "redis"]'
    )
    assert broker_settings(parse(tomllib.loads(text)))["super.users"] == "User:CN=b;User:CN=c"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (f'zookeeper_password = "{PASSWORD}"\n', "", "zookeeper_password is missing or not of the form"),
        (PASSWORD, "short", "zookeeper_password is missing or not of the form"),
        (PASSWORD, f"{PASSWORD};", "zookeeper_password is missing or not of the form"),
        ('"generated"', '"mine"', "certificates is missing or not of the form generated|own"),
        (
            "[security]\n",
            '[security]\nca = "x"\n',
            "[security] has the unknown key ca; allowed: zookeeper_password, certificates",
        ),
    ],
)
def test_an_incomplete_table_is_rejected(old: str, new: str, message: str) -> None:
    with pytest.raises(InvalidInventory) as rejection:
        parse(tomllib.loads(SECURED.replace(old, new)))
    assert message in str(rejection.value)


def test_a_listener_without_tls_is_rejected() -> None:
    text = EXAMPLE.replace(PLACEHOLDER, "s3cret") + SECURITY
    with pytest.raises(InvalidInventory, match=r"a listener without TLS, but the inventory has \[security\]: remove"):
        files(parse(tomllib.loads(text)), "a")
