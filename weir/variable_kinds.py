"""Types of the environment variables of Weir: how a text becomes a value, and which values are allowed.
A dataclass declares a variable as a field with `variable`.

A `parse` raises ValueError for a value that is not allowed. Does not contain: the variables themselves (`weir.variables`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ON, OFF = ("on", "1", "true", "yes"), ("off", "0", "false", "no")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
NICE_MAX = 19
PRICE_MAX = 1_000_000
"""Maximum price per GB and month: a greater number has the wrong unit."""
BROKERS_MAX = 1_000
"""A larger number of brokers is a typing error."""
TAILS_MAX = 200
CONNECT_CLUSTERS_MAX = 20
"""Maximum number of Connect clusters. One page sends a request to all of them at the same time."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
GROUPS_MAX = 500
"""Maximum number of groups in one of the settings of directories. A login creates those that it needs."""
GROUP_CHARS_MAX = 150
"""Maximum number of characters of the name of a Django group: the width of the column."""
CLUSTER_COLOURS = ("none", "red", "orange", "green", "blue", "purple")
"""Colours that mark a cluster in the console. They differ from the colours of states and are always shown with the name of the cluster."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of values. `allowed` completes the sentence "allowed: ...". `parse` raises ValueError."""

    name: str
    allowed: str
    parse: Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Variable:
    """`default`: as text, "" for none. `default_note` replaces it in the documentation if the default is computed."""

    name: str
    kind: Kind
    default: str
    doc: str
    unit: str = ""
    default_note: str = ""
    secret: bool = False


def choice(values: Mapping[str, object], name: str = "choice") -> Kind:
    def parse(text: str) -> object:
        if text.lower() not in values:
            raise ValueError(text)
        return values[text.lower()]

    return Kind(name, ", ".join(values), parse)


def integer(low: int, high: int) -> Kind:
    def parse(text: str) -> int:
        number = int(text)
        if not low <= number <= high:
            raise ValueError(text)
        return number

    return Kind("int", f"{low} to {high}", parse)


def text_list(pattern: str, allowed: str) -> Kind:
    def parse(text: str) -> tuple[str, ...]:
        items = tuple(item.strip() for item in text.split(",") if item.strip())
        if not all(re.fullmatch(pattern, item) for item in items):
            raise ValueError(text)
        return items

    return Kind("list", f"{allowed}, separated by commas", parse)


def url(*schemes: str, form: str) -> Kind:
    def parse(text: str) -> str:
        if text and urlsplit(text).scheme not in schemes:
            raise ValueError(text)
        return text

    return Kind("URL", form, parse)


def provider_url(text: str) -> str:
    """Plain HTTP is only for a provider on this machine: an attacker between the two could log in as anyone."""
    parts = urlsplit(text)
    is_loopback = parts.scheme == "http" and parts.hostname in LOOPBACK
    if text and not (parts.hostname and (parts.scheme == "https" or is_loopback)):
        raise ValueError(text)
    return text


def scopes(text: str) -> str:
    if "openid" not in text.split():
        raise ValueError(text)
    return text


def directory_url(text: str) -> str:
    """LDAP without TLS is only for a directory on this machine: the passwords of all users pass there."""
    parts = urlsplit(text)
    is_loopback = parts.scheme == "ldap" and parts.hostname in LOOPBACK
    if text and not (parts.hostname and (parts.scheme in ("ldaps", "ldap+starttls") or is_loopback)):
        raise ValueError(text)
    return text


def filter_with(*placeholders: str) -> Kind:
    """A filter of LDAP with one of the placeholders."""

    def parse(text: str) -> str:
        fields = set(re.findall(r"{([^}]*)}", text))
        if text and (not fields or not fields <= set(placeholders) or not re.fullmatch(r"\(.+\)", text)):
            raise ValueError(text)
        return text

    return Kind("string", f"a filter in brackets, with {' or '.join('{' + p + '}' for p in placeholders)}", parse)


def _group_map(text: str) -> tuple[tuple[str, str], ...]:
    """`a=b, c`: (group of the directory, Django group); a single name is both."""
    pairs = [item.rpartition("=") if "=" in item else (item, "=", item) for item in _group_names(text)]
    found = tuple((theirs.strip(), ours.strip()) for theirs, _, ours in pairs)
    if not all(theirs and 0 < len(ours) <= GROUP_CHARS_MAX for theirs, ours in found):
        raise ValueError(text)
    return found


def _group_names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if len(names) > GROUPS_MAX:
        raise ValueError(text)
    return names


def addresses(text: str) -> str:
    if not all(re.fullmatch(r"\S+:\d{1,5}", address.strip()) for address in text.split(",")):
        raise ValueError(text)
    return text


def memory(text: str) -> str:
    if not re.fullmatch(r"[1-9]\d{0,5}[mg]", text):
        raise ValueError(text)
    return text


def _connect_clusters(text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """`a=url url, b=url`: (name, addresses of workers) of each cluster."""
    found = []
    for item in filter(str.strip, text.split(",")):
        name, _, workers = item.strip().partition("=")
        urls = tuple(workers.split())
        is_http = all(urlsplit(u).scheme in ("http", "https") and urlsplit(u).hostname for u in urls)
        if not re.fullmatch(r"[\w.-]{1,100}", name) or not urls or not is_http:
            raise ValueError(text)
        found.append((name, urls))
    if len(dict(found)) < len(found) or len(found) > CONNECT_CLUSTERS_MAX:
        raise ValueError(text)
    return tuple(found)


def _price(text: str) -> float | None:
    if not text:
        return None
    value = float(text)
    if not 0 <= value <= PRICE_MAX:
        raise ValueError(text)
    return value


PRICE = Kind("decimal", f"0 to {PRICE_MAX:,}, or empty", _price)
SWITCH = choice({**dict.fromkeys(ON, True), **dict.fromkeys(OFF, False)}, "boolean")
TEXT = Kind("string", "any text", str)
FOLDER = Kind("path", "a directory, relative to the working directory or absolute", lambda text: Path(text).resolve())
FILE = Kind("path", "a file", lambda text: Path(text) if text else None)
CONNECT_CLUSTERS = Kind(
    "list",
    "name=https://[user:password@]host:port, more workers of the cluster after spaces, more clusters after commas",
    _connect_clusters,
)
LOG_LEVEL = Kind("choice", ", ".join(LOG_LEVELS), lambda text: LOG_LEVELS[LOG_LEVELS.index(text.upper())])
GROUPS = Kind("list", f"names of groups, separated by commas, {GROUPS_MAX} at most", _group_names)
GROUP_MAP = Kind("list", "group or group=Django group, separated by commas", _group_map)


def variable(name: str, kind: Kind, default: str, doc: str, **details: Any) -> Any:
    described = Variable(name, kind, default, doc, **details)
    return field(metadata={"variable": described}, repr=not described.secret)
