"""Certificates of machines: kept while they are valid, made again for another address."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest
from cryptography import x509

from tests.unit.weir.deployment.test_security import SECURED
from weir.deployment import certificates
from weir.deployment.certificates import write_certificates
from weir.deployment.inventory import parse

INVENTORY = parse(tomllib.loads(SECURED))


def test_each_machine_has_a_certificate_of_one_authority_and_keeps_it(tmp_path: Path) -> None:
    assert write_certificates(tmp_path, INVENTORY) == ["a", "b", "c"]
    tls = tmp_path / "b" / "etc" / "weir" / "tls"
    made = x509.load_pem_x509_certificate((tls / "machine.pem").read_bytes())
    made.verify_directly_issued_by(x509.load_pem_x509_certificate((tls / "ca.pem").read_bytes()))
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.2"]
    assert names.get_values_for_type(x509.DNSName) == ["b"] and made.subject.rfc4514_string() == "CN=b"
    assert not stat.S_IMODE((tls / "machine.pem").stat().st_mode) & 0o007
    assert [p.name for p in tmp_path.rglob("ca.key")] == ["ca.key"]
    before = (tls / "machine.pem").read_bytes()
    assert write_certificates(tmp_path, INVENTORY) == [] and (tls / "machine.pem").read_bytes() == before


def test_a_machine_with_another_address_gets_a_new_certificate(tmp_path: Path) -> None:
    write_certificates(tmp_path, INVENTORY)
    moved = parse(tomllib.loads(SECURED.replace('address = "10.0.0.2"', 'address = "10.0.0.9"')))
    assert write_certificates(tmp_path, moved) == ["b"]


def test_a_certificate_that_ends_soon_or_is_unreadable_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_certificates(tmp_path, INVENTORY)
    (tmp_path / "a" / "etc" / "weir" / "tls" / "machine.pem").write_text("damaged")
    assert write_certificates(tmp_path, INVENTORY) == ["a"]
    monkeypatch.setattr(certificates, "VALID_DAYS_MIN", 10_000)
    assert write_certificates(tmp_path, INVENTORY) == ["a", "b", "c"]
