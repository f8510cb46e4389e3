"""A secured local cluster: every listener requires TLS and a password."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

import pytest

from brokerd.config import zookeeper_client
from brokerd.config.broker import BrokerConfig
from brokerd.config.kafka_client import ClientSettings
from controlplane.devcluster import layout as layouts
from controlplane.devcluster import provision, security
from controlplane.models import AccessEntry


@pytest.mark.django_db
def test_a_secured_local_cluster_has_no_plaintext_listener(tmp_path: Path) -> None:
    layout = layouts.Layout(tmp_path, 20_000, 2, 1, secure=True)
    facts = provision.write_configuration(layout)
    assert layouts.planned_layout(tmp_path, None, None, None).secure, "it stays one"
    assert not layouts.planned_layout(tmp_path / "another", None, None, None).secure
    again = provision.write_configuration(layout)
    assert again == facts, "passwords are kept"
    for n in (1, 2):
        config = BrokerConfig.load(tmp_path / f"broker-{n}" / "broker.properties", lambda name: True)
        assert [d.protocol for d in config.listeners] == ["SASL_SSL"]
        assert config.inter_broker is not None and config.inter_broker.sasl
        assert config["authorizer.class.name"] and config["zookeeper.set.acl"]
        context = ssl.create_default_context(cafile=str(tmp_path / "pki" / "ca.pem"))
        context.load_cert_chain(config["ssl.keystore.location"])
    known = ClientSettings.load(Path(facts["kafka_config"]))
    assert known.librdkafka()["sasl.password"] == facts["kafka_password"]
    protection = zookeeper_client.load(Path(facts["zookeeper_config"]))
    zookeeper_security = security.zookeeper_security(tmp_path, facts)
    assert zookeeper_security is not None and protection.context is not None
    assert (protection.user, protection.password, protection.owned) == (
        zookeeper_security.user,
        zookeeper_security.password,
        True,
    )
    assert facts["zookeeper_password"] not in f"{zookeeper_security}{protection}"
    private = (
        "client.properties",
        "zookeeper.properties",
        "pki/zookeeper.pem",
        "local-cluster.json",
        "pki/ca.key",
        "pki/broker-1.pem",
        "broker-1/broker.properties",
    )
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in private} == {0o600}

    security.ensure_users(facts)
    rows = {r.key: r.generation for r in AccessEntry.objects.all()}
    assert rows == {"SCRAM-SHA-512:weir-broker": 1, "SCRAM-SHA-512:weir": 1}
    security.ensure_users(facts)
    assert {r.generation for r in AccessEntry.objects.all()} == {1}, "the same passwords change nothing"
    security.ensure_users({**facts, "broker_password": "another"})
    assert {r.key: r.generation for r in AccessEntry.objects.all()}["SCRAM-SHA-512:weir-broker"] == 2
