"""Routes: which records of a source topic are copied to which target topics, as the metadata log and the REST API store them.

Invariants: a `Route` is valid: `route_of` rejects everything else, with the field and the reason. The number of bindings and every length are
bounded. Does not contain: matching (`brokerd/delivery/route_matcher.py`), the transfer (`brokerd/delivery/route_partition.py`), loops.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from brokerd.cluster.access_values import AccessValue
from brokerd.cluster.model import INTERNAL_TOPICS, TOPIC_NAME_LENGTH_MAX

BINDINGS_MAX = 1_000
"""Maximum number of bindings of one route. Each record is compared with all of them."""
HEADER_RULES_MAX = 20
"""Maximum number of header conditions, and of header changes, of one binding."""
TEXT_LENGTH_MAX = 500
"""Maximum number of characters of a key, a pattern, a header name or a header value. RabbitMQ limits routing keys to 255 bytes."""
PATTERN_WORDS_MAX = 50
"""Maximum number of words of a pattern. Each wildcard can multiply the work of a comparison."""
VALUE_BYTES_MAX = 48 * 1024
"""Maximum number of compressed bytes of one route in the metadata log: less than an entry of the log, `metadata.ENTRY_BYTES_MAX`."""
COMMENT_LENGTH_MAX = 1_000
PRINCIPAL_TYPE = "User"
"""The type of every principal that clients can have."""
ROUTE_GROUP_PREFIX = "weir.route."
"""The consumer group in which the positions of a route are committed is named with this prefix and the name of the route."""
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,100}\Z")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
"""Characters that have no UTF-8 encoding, or that PostgreSQL does not store."""
_TOPIC = re.compile(r"[a-zA-Z0-9._-]+\Z")


class MatchKind(StrEnum):
    KEY = "key"
    """The key is equal to `value`."""
    PATTERN = "pattern"
    """The words of the key, separated by dots, match `value`: `*` is one word, `#` zero or more words."""
    HEADERS_ALL = "headers_all"
    """Each of `headers` matches."""
    HEADERS_ANY = "headers_any"
    """The condition is true if at least one of `headers` matches."""
    ALL = "all"
    """Every record matches."""


class SampleBy(StrEnum):
    KEY = "key"
    """Sample by key: all records of a key, or none. Records without a key are sampled by their offset."""
    OFFSET = "offset"


class RouteStart(StrEnum):
    LATEST = "latest"
    EARLIEST = "earliest"


class InvalidRoute(ValueError):
    """`field`: the path of the invalid input, for example `bindings.3.match.value`."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field, self.reason = field, reason


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """`value` None: the header is present, with any value."""

    name: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Match:
    """`value`: of the kinds KEY and PATTERN. `headers`: of the kinds HEADERS_ALL and HEADERS_ANY."""

    kind: MatchKind
    value: str = ""
    headers: tuple[HeaderRule, ...] = ()


@dataclass(frozen=True, slots=True)
class Transformation:
    """Changes of headers and key. `set_headers` replaces all headers of these names. `key_from_header`: the value of this header becomes the key;
    a record without the header keeps its key."""

    set_headers: tuple[tuple[str, bytes], ...] = ()
    remove_headers: tuple[str, ...] = ()
    key_from_header: str = ""
    drop_key: bool = False


@dataclass(frozen=True, slots=True)
class Binding:
    """`sample_percent`: the share of the matching records that is routed, more than 0 and at most 100."""

    target: str
    match: Match
    sample_percent: float = 100.0
    sample_by: SampleBy = SampleBy.KEY
    transformation: Transformation = Transformation()


@dataclass(frozen=True, slots=True)
class Route:
    """`route_id`: differs from that of a deleted route of the same name. `generation`: of the definition. `partitions_at_start`: partitions of the
    source topic when the route was created; later ones are routed from their first record on. `principal`: its ACLs and quotas apply to the route;
    empty: the brokers route with their own identity."""

    name: str
    route_id: str
    generation: int
    source: str
    start: RouteStart
    enabled: bool
    partitions_at_start: int
    bindings: tuple[Binding, ...]
    principal: str = ""

    @property
    def group(self) -> str:
        return route_group(self.name)

    @property
    def targets(self) -> tuple[str, ...]:
        """The distinct target topics, sorted."""
        return tuple(sorted({b.target for b in self.bindings}))


def route_group(name: str) -> str:
    return ROUTE_GROUP_PREFIX + name


E = TypeVar("E", bound=StrEnum)


def route_of(name: str, generation: int, value: AccessValue) -> Route:
    """The route in the value of a row or of an AccessChanged record. Raises InvalidRoute."""
    if not _NAME.match(name):
        raise InvalidRoute("name", "a route name has 1 to 100 letters, digits, dots, underscores and hyphens")
    source = _topic(value.get("source"), "source")
    bindings = value.get("bindings")
    if not isinstance(bindings, list) or not 0 < len(bindings) <= BINDINGS_MAX:
        raise InvalidRoute("bindings", f"a route has 1 to {BINDINGS_MAX} bindings")
    route = Route(
        name,
        str(value.get("route_id", "")),
        generation,
        source,
        _choice(RouteStart, value.get("start", RouteStart.LATEST), "start"),
        bool(value.get("enabled", True)),
        _partition_count(value.get("partitions_at_start", 0)),
        tuple(_binding(b, f"bindings.{i}") for i, b in enumerate(bindings)),
        _principal(value.get("principal")),
    )
    if len(zlib.compress(json.dumps(value).encode(), 6)) > VALUE_BYTES_MAX:
        raise InvalidRoute("bindings", f"the definition has more than {VALUE_BYTES_MAX} bytes, compressed; divide it")
    return route


def _binding(value: object, field: str) -> Binding:
    if not isinstance(value, dict):
        raise InvalidRoute(field, "a binding is an object")
    if unknown := value.keys() - BINDING_FIELDS:
        raise InvalidRoute(field, f"unknown fields {sorted(unknown)}; known are {sorted(BINDING_FIELDS)}")
    percent = value.get("sample_percent", 100.0)
    if not isinstance(percent, int | float) or isinstance(percent, bool) or not 0 < percent <= 100:
        raise InvalidRoute(f"{field}.sample_percent", "a number of more than 0 and at most 100")
    return Binding(
        _topic(value.get("target"), f"{field}.target"),
        _match(value.get("match"), f"{field}.match"),
        float(percent),
        _choice(SampleBy, value.get("sample_by", SampleBy.KEY), f"{field}.sample_by"),
        _transformation(value, field),
    )


BINDING_FIELDS = frozenset(
    {
        "target",
        "match",
        "sample_percent",
        "sample_by",
        "set_headers",
        "remove_headers",
        "key_from_header",
        "drop_key",
    }
)


def _match(value: object, field: str) -> Match:
    if not isinstance(value, dict):
        raise InvalidRoute(field, f"an object with a kind: {', '.join(MatchKind)}")
    if unknown := value.keys() - {"kind", "value", "headers"}:
        raise InvalidRoute(field, f"unknown fields {sorted(unknown)}; known are headers, kind and value")
    kind = _choice(MatchKind, value.get("kind"), f"{field}.kind")
    if kind is MatchKind.ALL:
        return Match(kind)
    if kind in (MatchKind.KEY, MatchKind.PATTERN):
        text = _text(value.get("value"), f"{field}.value", empty=kind is MatchKind.KEY)
        if kind is MatchKind.PATTERN and text.count(".") >= PATTERN_WORDS_MAX:
            raise InvalidRoute(f"{field}.value", f"a pattern has at most {PATTERN_WORDS_MAX} words")
        return Match(kind, text)
    rules = _list(value.get("headers"), f"{field}.headers")
    if not rules:
        raise InvalidRoute(f"{field}.headers", "at least one header")
    return Match(kind, "", tuple(_rule(r, f"{field}.headers.{i}") for i, r in enumerate(rules)))


def _rule(value: object, field: str) -> HeaderRule:
    if not isinstance(value, dict):
        raise InvalidRoute(field, "an object with a name and a value")
    text = value.get("value")
    content = None if text is None else _text(text, f"{field}.value", empty=True).encode()
    return HeaderRule(_text(value.get("name"), f"{field}.name"), content)


def _transformation(value: Mapping[str, object], field: str) -> Transformation:
    put = [_rule(r, f"{field}.set_headers.{i}") for i, r in enumerate(_list(value.get("set_headers"), field))]
    removed = _list(value.get("remove_headers"), f"{field}.remove_headers")
    key, drop = value.get("key_from_header") or "", value.get("drop_key", False) is True
    if key and drop:
        raise InvalidRoute(f"{field}.drop_key", "not together with key_from_header")
    return Transformation(
        tuple((r.name, r.value or b"") for r in put),
        tuple(_text(n, f"{field}.remove_headers.{i}") for i, n in enumerate(removed)),
        _text(key, f"{field}.key_from_header", empty=True),
        drop,
    )


def _list(value: object, field: str) -> Sequence[object]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > HEADER_RULES_MAX:
        raise InvalidRoute(field, f"a list of at most {HEADER_RULES_MAX}")
    return value


def _text(value: object, field: str, *, empty: bool = False) -> str:
    if not isinstance(value, str) or len(value) > TEXT_LENGTH_MAX or not (value or empty):
        raise InvalidRoute(field, f"a text of {0 if empty else 1} to {TEXT_LENGTH_MAX} characters")
    if _UNSTORABLE.search(value):
        raise InvalidRoute(field, "a text without zero characters and surrogates")
    return value


def _topic(value: object, field: str) -> str:
    if not isinstance(value, str) or len(value) > TOPIC_NAME_LENGTH_MAX or not _TOPIC.match(value):
        raise InvalidRoute(field, "the name of a topic")
    if value in INTERNAL_TOPICS:
        raise InvalidRoute(field, f"topic {value} is internal")
    return value


def _principal(value: object) -> str:
    principal = _text(value or "", "principal", empty=True)
    kind, colon, name = principal.partition(":")
    if principal and (kind != PRINCIPAL_TYPE or not colon or not name or name == "*"):
        raise InvalidRoute("principal", "a user with its type, such as User:alice, or empty")
    return principal


def _partition_count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidRoute("partitions_at_start", "a number of partitions")
    return value


def _choice(kind: type[E], value: object, field: str) -> E:
    if not isinstance(value, str) or value not in set(kind):
        raise InvalidRoute(field, f"one of {', '.join(kind)}")
    return kind(value)
