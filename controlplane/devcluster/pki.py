"""A certificate authority of one cluster, and the certificates that it signs.

Invariants: a private key has mode 600, and an existing authority is kept.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from weir_common.files import write_private

DAYS = 3650
"""`up` creates new certificates at each start. This is for a cluster that stays up."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Authority:
    """`ca`: the PEM file of the trusted certificate."""

    def __init__(self, folder: Path, name: str = "local cluster certificate authority") -> None:
        self.folder, self.ca = folder, folder / "ca.pem"
        folder.mkdir(parents=True, exist_ok=True)
        key_file = folder / "ca.key"
        if self.ca.exists() and key_file.exists():
            key = serialization.load_pem_private_key(key_file.read_bytes(), None)
            assert isinstance(key, ec.EllipticCurvePrivateKey)
            self._key, self._name = key, x509.load_pem_x509_certificate(self.ca.read_bytes()).subject
            return
        self._key, self._name = ec.generate_private_key(ec.SECP256R1()), _name(name)
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        made = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        write_private(key_file, _pem(self._key))
        write_private(self.ca, made.public_bytes(serialization.Encoding.PEM).decode())

    def issue(self, name: str) -> Path:
        """A PEM file with the key and the certificate of a server on loopback."""
        path = self.folder / f"{name}.pem"
        write_private(path, self.sign(name, LOOPBACK))
        return path

    def sign(self, name: str, hosts: Sequence[str]) -> str:
        """A new key and its certificate, in PEM, for a server with these names and addresses. It is also valid as a client certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        made = (
            _builder(_name(name), self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([_host(h) for h in hosts]), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return _pem(key) + made.public_bytes(serialization.Encoding.PEM).decode()


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    # Valid from an hour ago, because clocks differ.
    begins = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + dt.timedelta(days=DAYS))
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> str:
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain).decode()
