"""The files of a local cluster: secrets are kept, each broker has its settings, defaults of topics are set once."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.config.broker import BrokerConfig
from controlplane.devcluster import provision
from controlplane.devcluster.layout import Layout
from controlplane.models import AccessEntry
from controlplane.services import access


def test_each_broker_has_valid_settings(tmp_path: Path) -> None:
    facts = provision.write_configuration(Layout(tmp_path, 20_000, 4, 1))
    assert facts["bootstrap"].count(",") == 3 and facts["zookeeper"] == "127.0.0.1:20001"
    for n in range(1, 5):
        config = BrokerConfig.load(tmp_path / f"broker-{n}" / "broker.properties", lambda name: True)
        assert (config["broker.id"], config["default.replication.factor"]) == (n, 3)
        assert "min.insync.replicas=2\n" in (tmp_path / f"broker-{n}" / "broker.properties").read_text()
        assert config.listeners[0].port == 20_001 + n
    assert (tmp_path / "celery").is_dir()


def test_secrets_are_kept_and_the_number_of_brokers_follows(tmp_path: Path) -> None:
    first = provision.write_configuration(Layout(tmp_path, 20_000, 1, 1))
    again = provision.write_configuration(Layout(tmp_path, 20_000, 3, 2))
    assert (again["secret_key"], again["password"]) == (first["secret_key"], first["password"])
    assert (again["brokers"], again["controllers"]) == (3, 2) and "kafka_password" not in again


@pytest.mark.django_db
def test_the_defaults_of_topics_are_set_unless_an_operator_changed_them(tmp_path: Path) -> None:
    provision.ensure_topic_defaults(Layout(tmp_path, 20_000, 2, 1))
    assert not AccessEntry.objects.exists(), "two brokers need no minimum"
    provision.ensure_topic_defaults(Layout(tmp_path, 20_000, 3, 1))
    row = AccessEntry.objects.get()
    assert (row.key, row.value) == (access.ALL_BROKERS, {"min.insync.replicas": "2"})
    AccessEntry.objects.update(value={"min.insync.replicas": "1"})
    provision.ensure_topic_defaults(Layout(tmp_path, 20_000, 3, 1))
    assert AccessEntry.objects.get().value == {"min.insync.replicas": "1"}
