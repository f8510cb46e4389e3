"""The certificate authority of a local cluster: kept over starts, its certificates valid for servers and clients."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

from cryptography import x509

from controlplane.devcluster.pki import Authority


def test_an_existing_authority_is_kept_and_keys_are_private(tmp_path: Path) -> None:
    first = Authority(tmp_path)
    before = first.ca.read_bytes()
    issued = Authority(tmp_path).issue("broker-1")
    assert first.ca.read_bytes() == before
    assert {stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "ca.key", issued)} == {0o600}
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(issued)


def test_a_certificate_is_signed_for_loopback(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    made = x509.load_pem_x509_certificate(authority.issue("broker-1").read_bytes())
    made.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.ca.read_bytes()))
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert made.subject.rfc4514_string() == "CN=broker-1"
