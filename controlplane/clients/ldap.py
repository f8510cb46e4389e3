"""Users and groups of an LDAP directory, through ldap3: a search with the account of the settings, then a bind with the user's password.

Invariants: an empty password is never sent, because a bind without a password succeeds for every name. Names are escaped in filters. TLS verifies the
certificate. Each call has its own connections, each with a time limit. Does not contain: what groups permit (`domain.external_login`).
ldap3 is an optional dependency (the extra `ldap`): the functions import it.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypedDict
from urllib.parse import urlsplit

from django.conf import settings

from controlplane.domain.external_login import ExternalUser, LoginRejected, LoginRejection, LoginSource

if TYPE_CHECKING:
    from ldap3 import Connection, Server

TIMEOUT_SECONDS = 5
"""Time limit of each connection and of each response. A login needs two connections and four responses."""
GROUPS_MAX = 1000
"""Maximum number of groups of one user. More are an error: a group that gives a right could be among those that are cut off."""
IDENTIFIERS = ("entryUUID", "objectGUID", "nsUniqueId", "ipaUniqueID")
"""Attributes that identify an entry when it is renamed. Without them its DN does."""
INVALID_CREDENTIALS = 49
"""Result code of RFC 4511."""


class LdapEntry(TypedDict):
    """The parts of ldap3's entries that are read."""

    dn: str
    raw_attributes: dict[str, list[bytes]]


def authenticate(name: str, password: str) -> ExternalUser | None:
    """The user with this name and password; None: there is no such user, or the password is wrong. Raises LoginRejected if the directory does not respond."""
    if not name or not password:
        return None
    with _searching() as search:
        entry = _entry(search, name)
        if entry is None or not _bind_succeeds(entry["dn"], password):
            return None
        return _user(search, entry)


def find_user(name: str) -> ExternalUser | None:
    """The user with this name, without a password: to renew a session. None: there is none any more. Raises LoginRejected."""
    with _searching() as search:
        entry = _entry(search, name)
        return None if entry is None else _user(search, entry)


def _server() -> Server:
    from ldap3 import NONE, Server, Tls

    parts = urlsplit(settings.WEIR.ldap_url)
    ca_file = settings.WEIR.ldap_ca_file
    tls = Tls(validate=ssl.CERT_REQUIRED, ca_certs_file=str(ca_file) if ca_file else None)
    encrypted = parts.scheme == "ldaps"
    port = parts.port or (636 if encrypted else 389)
    return Server(parts.hostname, port=port, use_ssl=encrypted, tls=tls, get_info=NONE, connect_timeout=TIMEOUT_SECONDS)


def _connect(dn: str, password: str) -> Connection:
    """A connection that is encrypted as WEIR_LDAP_URL says, before any bind."""
    from ldap3 import ANONYMOUS, SIMPLE, Connection

    connection = Connection(
        _server(),
        user=dn or None,
        password=password or None,
        authentication=SIMPLE if dn else ANONYMOUS,
        receive_timeout=TIMEOUT_SECONDS,
        raise_exceptions=False,
        auto_referrals=False,
    )
    connection.open()
    if urlsplit(settings.WEIR.ldap_url).scheme == "ldap+starttls" and not connection.start_tls():
        raise _bad_response(f"StartTLS: {connection.result['description']}")
    return connection


@contextmanager
def _searching() -> Iterator[Connection]:
    """A connection of the account that searches. Errors of ldap3 become LoginRejected."""
    from ldap3.core.exceptions import LDAPCommunicationError, LDAPException

    weir = settings.WEIR
    connection = None
    try:
        connection = _connect(weir.ldap_bind_dn, weir.ldap_bind_password)
        if not connection.bind():
            raise _bad_response(f"bind of WEIR_LDAP_BIND_DN: {connection.result['description']}")
        yield connection
    except (LDAPCommunicationError, OSError) as error:
        raise LoginRejected(LoginRejection.UNREACHABLE, provider=weir.ldap_url, cause=_cause(error)) from error
    except LDAPException as error:
        raise _bad_response(_cause(error)) from error
    finally:
        if connection is not None:
            connection.unbind()


def _bind_succeeds(dn: str, password: str) -> bool:
    connection = _connect(dn, password)
    try:
        if connection.bind():
            return True
        if connection.result["result"] != INVALID_CREDENTIALS:
            raise LoginRejected(
                LoginRejection.REJECTED_BY_PROVIDER,
                provider=settings.WEIR.ldap_url,
                cause=connection.result["message"] or connection.result["description"],
            )
        return False
    finally:
        connection.unbind()


def _entry(search: Connection, name: str) -> LdapEntry | None:
    from ldap3.utils.conv import escape_filter_chars

    weir = settings.WEIR
    query = weir.ldap_user_filter.replace("{user}", escape_filter_chars(name))
    entries = _entries(search, weir.ldap_user_base, query, [weir.ldap_user_attribute, "mail", *IDENTIFIERS], 2)
    if len(entries) > 1:
        raise _bad_response(f"WEIR_LDAP_USER_FILTER finds more than one entry: {entries[0]['dn']}, {entries[1]['dn']}")
    return entries[0] if entries else None


def _user(search: Connection, entry: LdapEntry) -> ExternalUser:
    from ldap3.utils.conv import escape_filter_chars

    weir = settings.WEIR
    name = _text(entry, weir.ldap_user_attribute)
    if not name:
        raise LoginRejected(LoginRejection.ATTRIBUTE_MISSING, dn=entry["dn"], attribute=weir.ldap_user_attribute)
    query = weir.ldap_group_filter.replace("{dn}", escape_filter_chars(entry["dn"]))
    query = query.replace("{user}", escape_filter_chars(name))
    groups = _entries(search, weir.ldap_group_base, query, ["cn"], GROUPS_MAX + 1)
    if len(groups) > GROUPS_MAX:
        raise _bad_response(f"{name} is in more than {GROUPS_MAX} groups; WEIR_LDAP_GROUP_FILTER can find fewer")
    names = frozenset(value.decode("utf-8", "replace") for g in groups for value in g["raw_attributes"].get("cn", ()))
    return ExternalUser(
        LoginSource.LDAP, weir.ldap_user_base[:255], _identifier(entry)[:255], name, _text(entry, "mail"), names
    )


def _entries(search: Connection, base: str, query: str, attributes: list[str], limit: int) -> list[LdapEntry]:
    """Entries with their `dn` and `raw_attributes`. A referral to another directory is not followed."""
    from ldap3.core.results import RESULT_SIZE_LIMIT_EXCEEDED, RESULT_SUCCESS

    search.search(base, query, attributes=attributes, size_limit=limit, time_limit=TIMEOUT_SECONDS)
    if search.result["result"] not in (RESULT_SUCCESS, RESULT_SIZE_LIMIT_EXCEEDED):
        raise _bad_response(f"search in {base}: {search.result['description']}")
    return [e for e in search.response if e["type"] == "searchResEntry"]


def _identifier(entry: LdapEntry) -> str:
    for attribute in IDENTIFIERS:
        for value in entry["raw_attributes"].get(attribute, ()):
            return f"{attribute}:{value.hex() if attribute == 'objectGUID' else value.decode('utf-8', 'replace')}"
    return f"dn:{entry['dn'].lower()}"


def _text(entry: LdapEntry, attribute: str) -> str:
    values = entry["raw_attributes"].get(attribute, ())
    return values[0].decode("utf-8", "replace") if values else ""


def _cause(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:200]


def _bad_response(cause: str) -> LoginRejected:
    return LoginRejected(LoginRejection.BAD_DIRECTORY, provider=settings.WEIR.ldap_url, cause=cause)
