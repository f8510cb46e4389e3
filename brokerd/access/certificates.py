"""TLS contexts out of PEM files or texts, made anew when the files change.

Law: whoever is connected keeps what was agreed; the next connection gets the newest files that could be read; a file that cannot be read
changes nothing and is told once. Called by `net/listeners`. Must not come in: sockets.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

LOOK_MS = 1_000
"""How often the files are looked at: a few calls of stat."""
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
Get = Callable[[str], Any]


class CertificateError(Exception):
    """Keys or certificates that cannot be used; the text says which setting and why, and holds no secret."""


class Certificates:
    """Of one listener. `get(setting)` reads its settings. `server` and `client` are the contexts of the moment."""

    def __init__(self, get: Get) -> None:
        self._get = get
        self._seen = self._marks()
        self._told: object = None
        self.server = server_context(get)
        self.client = client_context(get)

    def _marks(self) -> tuple[tuple[Path, object], ...]:
        """Which files, and whether they are the same: the settings may name others while the broker runs."""
        named = (self._get(s) for s in ("ssl.keystore.location", "ssl.truststore.location"))
        return tuple((path, _mark(path)) for path in named if path is not None)

    def look(self) -> bool:
        """Read the files again if they have changed. True when new contexts are in force."""
        marks = self._marks()
        if marks in (self._seen, self._told):
            return False
        try:
            server, client = server_context(self._get), client_context(self._get)
        except CertificateError as e:
            self._told = marks
            log.error("certificates have changed and cannot be used; the old ones stay in force: %s", e)
            return False
        self._seen, self._told = marks, None
        self.server, self.client = server, client
        log.info("certificates have changed: new connections get them (%s)", ", ".join(str(path) for path, _ in marks))
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
        raise CertificateError("a listener with SSL needs ssl.keystore.location or ssl.keystore.key")
    context.verify_mode = _CLIENT_AUTH[get("ssl.client.auth")]
    if not _load_trust(context, get) and context.verify_mode is not ssl.CERT_NONE:
        raise CertificateError("ssl.client.auth needs ssl.truststore.location or ssl.truststore.certificates")
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context


def client_context(get: Get) -> ssl.SSLContext:
    """For connections to other brokers: shows this broker's certificate if asked. Raises CertificateError."""
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
    """True when there is one."""
    assert get("ssl.keystore.type") == "PEM"  # nothing else can be set
    location, key, password = get("ssl.keystore.location"), get("ssl.keystore.key"), get("ssl.key.password")

    def opened() -> str:
        if password is None:  # else OpenSSL would ask for it at the terminal
            raise CertificateError("the private key is encrypted, and ssl.key.password is not set")
        return str(password)

    try:
        if location is not None:
            context.load_cert_chain(location, password=opened)
        elif key is not None:
            _load_text(context, key + (get("ssl.keystore.certificate.chain") or ""), opened)
        else:
            return False
    except ssl.SSLError as e:
        raise CertificateError(f"the keystore {location or 'in ssl.keystore.key'} cannot be used: {e.reason}") from e
    except OSError as e:
        raise CertificateError(f"the keystore {location} cannot be read: {e.strerror}") from e
    return True


def _load_text(context: ssl.SSLContext, text: str, password: Callable[[], str]) -> None:
    """OpenSSL reads keys from files only; this one is in memory and has no name."""
    fd = os.memfd_create("keystore", os.MFD_CLOEXEC)
    try:
        os.write(fd, text.encode())
        context.load_cert_chain(f"/proc/self/fd/{fd}", password=password)
    finally:
        os.close(fd)


def _load_trust(context: ssl.SSLContext, get: Get) -> bool:
    """True when something is trusted."""
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
        raise CertificateError(f"the truststore {location or 'text'} cannot be used: {e.reason}") from e
    except OSError as e:
        raise CertificateError(f"the truststore {location} cannot be read: {e.strerror}") from e
    return True
