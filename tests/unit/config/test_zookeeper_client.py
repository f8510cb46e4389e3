"""Security settings of the ZooKeeper connection: file, contradictions, unusable files."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.config.zookeeper_client import load
from brokerd.security.certificates import CertificateError

LOGIN = 'org.apache.zookeeper.DigestLoginModule required username="weir" password="p=w";'


def write_properties(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "zookeeper.properties"
    path.write_text("\n".join(lines))
    return path


def test_an_empty_file_means_no_protection(tmp_path: Path) -> None:
    found = load(write_properties(tmp_path))
    assert (found.context, found.user, found.password, found.owned) == (None, None, None, False)


def test_a_login_with_acls_owns_the_znodes(tmp_path: Path) -> None:
    found = load(write_properties(tmp_path, f"zookeeper.sasl.jaas.config={LOGIN}", "zookeeper.set.acl=true"))
    assert (found.user, found.password, found.owned) == ("weir", "p=w", True)


def test_acls_without_a_login_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"zookeeper.set.acl requires zookeeper.sasl.jaas.config"):
        load(write_properties(tmp_path, "zookeeper.set.acl=true"))


def test_an_unknown_setting_is_rejected_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"unknown setting zookeeper.ssl; known are zookeeper.ssl.client.enable"):
        load(write_properties(tmp_path, "zookeeper.ssl=true"))


def test_an_invalid_value_is_rejected_with_its_setting(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"zookeeper.set.acl: expected true or false"):
        load(write_properties(tmp_path, "zookeeper.set.acl=yes"))


def test_an_unusable_trust_store_is_reported_at_start_up(tmp_path: Path) -> None:
    store = tmp_path / "ca.pem"
    store.write_text("no certificate")
    lines = ("zookeeper.ssl.client.enable=true", f"zookeeper.ssl.truststore.location={store}")
    with pytest.raises(CertificateError):
        load(write_properties(tmp_path, *lines))
