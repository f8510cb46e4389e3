"""Certificates for tests, made on the spot by the openssl program."""

from __future__ import annotations

import subprocess
from pathlib import Path


def openssl(*arguments: str, cwd: Path) -> None:
    subprocess.run(["openssl", *arguments], cwd=cwd, check=True, capture_output=True)


class Authority:
    """Signs; `ca` is what others trust. Elliptic curves: an RSA key takes a second to make."""

    def __init__(self, folder: Path, name: str = "test authority") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "ca.key", cwd=folder)
        openssl(
            "req",
            "-x509",
            "-new",
            "-key",
            "ca.key",
            "-subj",
            f"/CN={name}",
            "-addext",
            "keyUsage=critical,keyCertSign,cRLSign",
            "-days",
            "30",
            "-out",
            "ca.pem",
            cwd=folder,
        )
        self.ca = folder / "ca.pem"

    def issue(self, name: str, subject: str | None = None, encrypted: str | None = None) -> Path:
        """A PEM file with key and certificate, for clients and for a server at 127.0.0.1. `name`.key and `name`.crt hold each alone."""
        f = self.folder
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{name}.ec", cwd=f)
        hidden = ("-v2", "aes-256-cbc", "-passout", f"pass:{encrypted}") if encrypted else ("-nocrypt",)
        openssl("pkcs8", "-topk8", "-in", f"{name}.ec", "-out", f"{name}.key", *hidden, cwd=f)
        openssl("req", "-new", "-key", f"{name}.ec", "-subj", subject or f"/CN={name}", "-out", f"{name}.csr", cwd=f)
        (f / f"{name}.ext").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\nauthorityKeyIdentifier=keyid\n")
        openssl(
            "x509",
            "-req",
            "-in",
            f"{name}.csr",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            "30",
            "-extfile",
            f"{name}.ext",
            "-out",
            f"{name}.crt",
            cwd=f,
        )
        whole = f / f"{name}.pem"
        whole.write_text((f / f"{name}.key").read_text() + (f / f"{name}.crt").read_text())
        return whole
