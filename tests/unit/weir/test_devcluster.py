"""The local cluster of a data directory, as the settings see it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controlplane.devcluster.layout import BROKERS_DEFAULT
from weir.devcluster import read_local_cluster


def test_before_the_first_start_the_defaults_hold_and_no_console_is_known(tmp_path: Path) -> None:
    found = read_local_cluster(tmp_path)
    base = found.port_base
    assert (found.console_port, found.cluster_name, found.brokers) == (base, "weir", BROKERS_DEFAULT)
    assert found.defaults["zookeeper"] == f"127.0.0.1:{base + 1}"
    brokers = [f"127.0.0.1:{base + 1 + n}" for n in range(1, BROKERS_DEFAULT + 1)]
    assert found.defaults["bootstrap"] == ",".join(brokers)
    assert found.defaults["console_url"] == "" and found.defaults["lake_dir"] == str(tmp_path / "lake")


def test_the_addresses_follow_from_ports_and_number_of_brokers(tmp_path: Path) -> None:
    (tmp_path / "local-cluster.json").write_text(json.dumps({"port_base": 700, "console_port": 80, "brokers": 1}))
    found = read_local_cluster(tmp_path)
    assert (found.port_base, found.console_port) == (700, 80)
    assert found.defaults["zookeeper"] == "127.0.0.1:701" and found.defaults["bootstrap"] == "127.0.0.1:702"
    assert found.defaults["console_url"] == "http://127.0.0.1:80"


def test_written_addresses_and_files_win(tmp_path: Path) -> None:
    facts = {"zookeeper": "zk:1", "bootstrap": "b:2", "secret_key": "s", "kafka_config": None, "zookeeper_config": "z"}
    (tmp_path / "local-cluster.json").write_text(json.dumps(facts))
    found = read_local_cluster(tmp_path).defaults
    assert {name: found[name] for name in facts} == facts | {"kafka_config": ""}


def test_an_unreadable_file_is_an_error_and_never_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "local-cluster.json").write_text("{")
    with pytest.raises(ValueError, match=r"is not valid JSON .*; run `manage.py up`"):
        read_local_cluster(tmp_path)
