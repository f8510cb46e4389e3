"""TLS contexts from PEM files or texts, reloaded when the files change.

Existing connections keep their context. New connections get the newest readable files. An unreadable file changes nothing and is logged
once. Does not contain sockets.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

CERTIFICATE_CHECK_MS = 1_000
"""Interval at which the files are checked for changes with stat."""
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
Get = Callable[[str], Any]


class CertificateError(Exception):
    """Unusable keys or certificates. The message names the setting and the cause, and contains no secret."""


class Certificates:
    """The certificates of one listener. `get(setting)` returns its settings. `server` and `client` are the current contexts."""

    def __init__(self, get: Get) -> None:
        self._get = get
        self._seen = self._marks()
        self._reported: object = None
        self.server = server_context(get)
        self.client = client_context(get)

    def _marks(self) -> tuple[tuple[Path, object], ...]:
        """The files and their state. Dynamic settings may change the paths."""
        named = (self._get(s) for s in ("ssl.keystore.location", "ssl.truststore.location"))
        return tuple((path, _mark(path)) for path in named if path is not None)

    def check_files(self) -> bool:
        """Reload the files if they have changed. Returns whether there are new contexts."""
        marks = self._marks()
        if marks in (self._seen, self._reported):
            return False
        try:
            server, client = server_context(self._get), client_context(self._get)
        except CertificateError as e:
            self._reported = marks
            log.error("certificate reload failed, the old certificates stay in use: %s", e)
            return False
        self._seen, self._reported = marks, None
        self.server, self.client = server, client
        log.info("certificates reloaded for new connections: files=%s", ",".join(str(path) for path, _ in marks))
        return True


def _mark(path: Path) -> object:
    try:
        s = path.stat()
    except OSError:
        return None
    return s.st_mtime_ns, s.st_ino, s.st_size


def server_context(get: Get) -> ssl.SSLContext:
    """Raises CertificateError."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, get)
    if not _load_key(context, get):
        raise CertificateError("an SSL listener requires ssl.keystore.location or ssl.keystore.key")
    context.verify_mode = _CLIENT_AUTH[get("ssl.client.auth")]
    if not _load_trust(context, get) and context.verify_mode is not ssl.CERT_NONE:
        raise CertificateError("ssl.client.auth requires ssl.truststore.location or ssl.truststore.certificates")
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context


def client_context(get: Get) -> ssl.SSLContext:
    """The context of outgoing connections, with the client certificate if there is one. Raises CertificateError."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, get)
    context.check_hostname = get("ssl.endpoint.identification.algorithm") == "https"
    _load_key(context, get)
    if not _load_trust(context, get):
        context.load_default_certs()
    return context


def _context(purpose: Any, get: Get) -> ssl.SSLContext:
    context = ssl.SSLContext(purpose)
    versions = sorted(_VERSIONS[v] for v in get("ssl.enabled.protocols"))
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    try:
        if get("ssl.cipher.suites"):
            context.set_ciphers(":".join(get("ssl.cipher.suites")))
    except ssl.SSLError as e:
        raise CertificateError(f"ssl.cipher.suites: {e.reason}") from e
    return context


def _load_key(context: ssl.SSLContext, get: Get) -> bool:
    """Load the private key and certificate chain. Returns whether there is one."""
    assert get("ssl.keystore.type") == "PEM"  # the only valid value
    location, key, password = get("ssl.keystore.location"), get("ssl.keystore.key"), get("ssl.key.password")

    def opened() -> str:
        if password is None:  # otherwise OpenSSL would prompt at the terminal
            raise CertificateError("the private key is encrypted: set ssl.key.password")
        return str(password)

    try:
        if location is not None:
            context.load_cert_chain(location, password=opened)
        elif key is not None:
            _load_text(context, key + (get("ssl.keystore.certificate.chain") or ""), opened)
        else:
            return False
    except ssl.SSLError as e:
        raise CertificateError(f"invalid key store {location or 'in ssl.keystore.key'}: {e.reason}") from e
    except OSError as e:
        raise CertificateError(f"cannot read key store {location}: {e.strerror}") from e
    return True


def _load_text(context: ssl.SSLContext, text: str, password: Callable[[], str]) -> None:
    """Load a key from text. OpenSSL reads keys only from files, so an anonymous file in memory is used."""
    fd = os.memfd_create("keystore", os.MFD_CLOEXEC)
    try:
        os.write(fd, text.encode())
        context.load_cert_chain(f"/proc/self/fd/{fd}", password=password)
    finally:
        os.close(fd)


def _load_trust(context: ssl.SSLContext, get: Get) -> bool:
    """Load the trusted CA certificates. Returns whether there are any."""
    assert get("ssl.truststore.type") == "PEM"
    location, text = get("ssl.truststore.location"), get("ssl.truststore.certificates")
    try:
        if location is not None:
            context.load_verify_locations(location)
        elif text is not None:
            context.load_verify_locations(cadata=text)
        else:
            return False
    except ssl.SSLError as e:
        raise CertificateError(f"invalid trust store {location or 'in ssl.truststore.certificates'}: {e.reason}") from e
    except OSError as e:
        raise CertificateError(f"cannot read trust store {location}: {e.strerror}") from e
    return True
