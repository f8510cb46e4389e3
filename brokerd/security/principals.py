"""Maps the distinguished name of a client certificate to a principal (KIP-371).

The rules give the same users as in Kafka: the name is formatted as in RFC 2253, and the first rule that matches the complete name applies.
Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

ANONYMOUS = "User:ANONYMOUS"
RULES_CHARACTERS_MAX = 10_000
NAME_CHARACTERS_MAX = 1_000
"""Maximum length of a distinguished name, because an operator's regular expression is matched against untrusted input."""
_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|\Z)", re.S)
_KEYWORDS = {
    "commonName": "CN",
    "countryName": "C",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_HEX = {"emailAddress": "1.2.840.113549.1.9.1"}
"""Attributes without a keyword in RFC 2253, formatted as OID=#DER (an IA5String)."""
Name = Sequence[Sequence[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class MappingRule:
    """`pattern` None: the unchanged name (DEFAULT)."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""


def parse_mapping_rules(text: str) -> tuple[MappingRule, ...]:
    if len(text) > RULES_CHARACTERS_MAX:
        raise ValueError(f"the rules are longer than {RULES_CHARACTERS_MAX} characters")
    out: list[MappingRule] = []
    at = 0
    while at < len(text.rstrip()):
        found = _RULE.match(text, at)
        if found is None:
            raise ValueError(f"invalid rule {text[at:]!r}; expected RULE:pattern/replacement/[LU] or DEFAULT")
        if found[1]:
            out.append(MappingRule(None))
        else:
            try:
                pattern = re.compile(found[2].replace("\\/", "/"))
            except re.error as e:
                raise ValueError(f"invalid pattern {found[2]!r}: {e}") from e
            out.append(MappingRule(pattern, _template(found[3]), found[4]))
        at = found.end()
    return tuple(out)


def _template(text: str) -> str:
    """Java's `$1` as Python's `\\g<1>`."""
    return re.sub(r"\$(\d)", r"\\g<\1>", text.replace("\\", "\\\\"))


def user_of(name: str | None, rules: Sequence[MappingRule]) -> str | None:
    """The principal of a client with this distinguished name (None: no certificate). None if no rule matches."""
    if name is None:
        return ANONYMOUS
    if len(name) > NAME_CHARACTERS_MAX:  # a regular expression could take too long
        return None if rules else f"User:{name}"
    for rule in rules or (MappingRule(None),):
        if rule.pattern is None:
            return f"User:{name}"
        found = rule.pattern.fullmatch(name)
        if found is not None:
            user = found.expand(rule.replacement)
            return "User:" + (user.lower() if rule.case == "L" else user.upper() if rule.case == "U" else user)
    return None


def distinguished_name(subject: Name) -> str:
    """The name in RFC 2253 format as in Java, last part first: `CN=alice,OU=x,O=y`. `subject` is the value of Python's ssl module."""
    return ",".join(
        "+".join(_attribute(key, value) for key, value in sorted(part, key=lambda kv: _KEYWORDS.get(kv[0], kv[0])))
        for part in reversed(subject)
    )


def _attribute(key: str, value: str) -> str:
    if key in _HEX:
        data = value.encode("ascii", "replace")
        length = bytes([len(data)]) if len(data) < 128 else b"\x82" + len(data).to_bytes(2, "big")
        return f"{_HEX[key]}=#16{length.hex()}{data.hex()}"
    escaped = re.sub(r'([,+"\\<>;])', r"\\\1", value)
    if escaped[:1] in ("#", " "):
        escaped = "\\" + escaped
    if escaped.endswith(" ") and len(escaped) > 1:
        escaped = escaped[:-1] + "\\ "
    return f"{_KEYWORDS.get(key, key)}={escaped}"


def owner_of(principal: str, address: Hashable) -> Hashable:
    """The owner of the loop time of a connection (`net/fair_scheduler`): the principal, or the IP address without authentication."""
    return address if principal == ANONYMOUS else ("principal", principal)
