"""Certificates of a listener: inline keys, paths that change at run time."""

from __future__ import annotations

from functools import partial

import pytest

from brokerd.config.broker import BrokerConfig
from brokerd.security.certificates import CertificateError, Certificates
from tests.pki import Authority
from tests.unit.net.test_tls import certificates


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"))


def test_a_private_key_may_be_inline_and_encrypted(authority: Authority) -> None:
    authority.issue("inline", encrypted="a pass phrase")
    key, chain = ((authority.folder / f"inline.{x}").read_text().replace("\n", "\\n") for x in ("key", "crt"))
    given = {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain}
    assert certificates({**given, "ssl.key.password": "a pass phrase"}).server
    with pytest.raises(CertificateError, match="invalid key store") as e:
        certificates({**given, "ssl.key.password": "wrong"})
    assert "wrong" not in str(e.value)
    with pytest.raises(CertificateError, match=r"set ssl\.key\.password"):
        certificates(given)


def test_certificate_paths_can_change_at_run_time(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    """kafka-configs --entity-type brokers --alter --add-config ssl.keystore.location=..."""
    first, second = authority.issue("first"), authority.issue("second")
    config = BrokerConfig.parse(
        {
            "broker.id": "1",
            "log.dirs": "/x",
            "listeners": "SSL://127.0.0.1:0,OWN://127.0.0.1:0",
            "inter.broker.listener.name": "SSL",
            "listener.security.protocol.map": "OWN:SSL",
            "ssl.keystore.location": str(first),
            "listener.name.own.ssl.keystore.location": str(first),
        }
    )
    every, own = (Certificates(partial(config.for_listener, listener)) for listener in config.listeners)
    before = every.server
    assert not every.check_files()
    config.follow({1: (1, {"ssl.keystore.location": str(second)})})
    assert every.check_files() and every.server is not before
    assert not own.check_files(), "what the file says of one listener stays"
    after = every.server
    config.follow({1: (2, {"ssl.keystore.location": "/nowhere.pem"})})
    assert not every.check_files() and every.server is after
    assert "the old certificates stay in use" in caplog.text
    config.follow({1: (3, {})})
    assert every.check_files(), "the file's word again"
