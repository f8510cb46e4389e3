"""Broker settings: errors are reported, every setting is used, and `deploy/broker.properties` describes every setting."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from brokerd.cluster.configs import BROKER_SYNONYMS
from brokerd.config.broker import SETTINGS, BrokerConfig, ConfigError

ROOT = Path(__file__).resolve().parents[3]
LEAST = {"broker.id": "1", "log.dirs": "/tmp/x"}


def test_the_example_file_is_valid_and_lists_every_setting_with_its_default() -> None:
    path = ROOT / "deploy" / "broker.properties"
    config = BrokerConfig.load(path, BROKER_SYNONYMS.__contains__)
    assert (config.broker_id, config["default.replication.factor"]) == (1, 3)
    text = path.read_text()
    defaults = dict(re.findall(r"^#([a-z.]+)=(.*)$", text, re.M))
    for setting in SETTINGS:
        assert f"{setting.name}=" in text, setting.name
        assert setting.doc in text
        if defaults.get(setting.name):
            assert setting.parse(defaults[setting.name]) == setting.default, setting.name
    topic_defaults = {name: value for name, value in defaults.items() if name in BROKER_SYNONYMS}
    assert topic_defaults
    assert (
        BrokerConfig.parse({**LEAST, **topic_defaults}, BROKER_SYNONYMS.__contains__).topic_defaults == topic_defaults
    )


def test_every_setting_is_used() -> None:
    definitions = [ROOT / "brokerd" / "config" / f"{name}.py" for name in ("broker", "groups", "security", "dynamic")]
    code = "".join(p.read_text() for p in (ROOT / "brokerd").rglob("*.py") if p not in definitions)
    code += (ROOT / "brokerd" / "config" / "broker.py").read_text().partition("class BrokerConfig")[2]
    code += (ROOT / "brokerd" / "config" / "groups.py").read_text().partition("def check")[2]
    assert [s.name for s in SETTINGS if f'"{s.name}"' not in code] == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"broker.id": "one"}, "invalid value broker.id='one'"),
        ({"broker.id": "-1"}, "below the minimum 0"),
        ({"weir.catch.up.min.percent": "0"}, "expected 1 to 100"),
        ({"weir.catch.up.min.percent": "101"}, "expected 1 to 100"),
        ({"no.such.thing": "1"}, "unknown setting 'no.such.thing'"),
        ({"listeners": "EXTERNAL://127.0.0.1:9092"}, "listener EXTERNAL has no security protocol; add it to"),
        ({"listeners": "A://h:1,A://h:2"}, "duplicate listener name"),
        ({"listeners": "PLAINTEXT://h:1,SSL://h:1"}, "two listeners have the same address"),
        ({"listener.security.protocol.map": "A:TLS"}, "'A:TLS' is not NAME:PROTOCOL with one of PLAINTEXT, SSL"),
        ({"listeners": "SSL://h:1,SASL_SSL://h:2"}, "set inter.broker.listener.name to the listener"),
        ({"inter.broker.listener.name": "INSIDE"}, "inter.broker.listener.name=INSIDE is missing in listeners"),
        ({"advertised.listeners": "SSL://h:1"}, "listener PLAINTEXT is missing in advertised.listeners"),
        ({"listeners": "PLAINTEXT://127.0.0.1:port"}, "listeners="),
        ({"log.dirs": "/a,/b,/a"}, "duplicate directory"),
        ({"auto.create.topics.enable": "yes"}, "expected true or false"),
        ({"log.dirs": ""}, "at least one directory"),
        ({"weir.metrics.listener": "9404"}, "not host:port"),
        ({"weir.metrics.listener": "::1:9404"}, "needs brackets: [::1]:9404"),
        ({"weir.metrics.listener": "127.0.0.1:0"}, "not host:port"),
        ({"group.consumer.session.timeout.ms": "6000"}, "is not between its min (45000) and its max (60000)"),
        ({"group.consumer.assignors": "uniform,mine"}, "expected one or more of uniform, range"),
        (
            {"group.coordinator.rebalance.protocols": "consumer"},
            "expected classic, and optionally consumer and streams",
        ),
    ],
)
def test_an_invalid_setting_is_rejected_with_its_name_and_a_remedy(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        BrokerConfig.parse({**LEAST, **given}, BROKER_SYNONYMS.__contains__)


def test_a_missing_setting_is_reported() -> None:
    with pytest.raises(ConfigError, match=r"missing setting log\.dirs"):
        BrokerConfig.parse({"broker.id": "1"})


def test_a_malformed_line_is_reported_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "broker.properties"
    path.write_text("broker.id=1\n# fine\nlog.dirs\n")
    with pytest.raises(ConfigError, match=r"broker\.properties:3: expected name=value"):
        BrokerConfig.load(path)
