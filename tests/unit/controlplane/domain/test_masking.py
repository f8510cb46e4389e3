"""Masking: no requested format, no unexpected structure and no encoding shows a masked value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controlplane.domain.errors import Rejected
from controlplane.domain.formats import Format
from controlplane.domain.masking import (
    MASKED,
    REPLACEMENT,
    MaskRule,
    MaskTarget,
    RecordRenderer,
    apply_path,
    check_rule,
    parse_path,
)

SECRET = "4111-1111"
VALUE, KEY, HEADER = MaskTarget.VALUE, MaskTarget.KEY, MaskTarget.HEADER
CARD = MaskRule("payments.*", VALUE, "$.customer.card")


def renderer(*rules: MaskRule, topic: str = "payments.eu", wanted: Format = Format.AUTO) -> RecordRenderer:
    return RecordRenderer(topic, rules, key_format=wanted, value_format=wanted)


def text_encodings(text: str) -> set[str]:
    import base64

    data = text.encode()
    return {text, data.hex(), base64.b64encode(data).decode().rstrip("=")[:-1]}


@pytest.mark.parametrize("wanted", list(Format))
@pytest.mark.parametrize(
    "data",
    [
        json.dumps({"customer": {"card": SECRET}, "id": 1}).encode(),
        json.dumps([{"customer": [{"card": SECRET}]}]).encode(),
        json.dumps({"customer": SECRET}).encode(),
        json.dumps(SECRET).encode(),
        f'{{"customer": {{"card": "{SECRET}", "card": 1}}}}'.encode(),
        f'{{"customer": {{"card": "{SECRET}"'.encode(),
        f"card={SECRET}".encode(),
        b"\xff" + SECRET.encode(),
        b"\xef\xbb\xbf" + json.dumps({"customer": {"card": SECRET}}).encode(),
        b'{"customer": {"\\u0063ard": "' + SECRET.encode() + b'"}}',
    ],
)
def test_a_masked_value_is_in_no_format(data: bytes, wanted: Format) -> None:
    shown = renderer(CARD, wanted=wanted).value(data)
    assert shown.text is not None and not any(form in shown.text for form in text_encodings(SECRET)), shown
    assert SECRET not in shown.note and shown.size == len(data)


def test_messagepack_is_masked_by_its_structure() -> None:
    msgpack = pytest.importorskip("msgpack")
    for name in ("card", b"card"):
        shown = renderer(CARD).value(msgpack.packb({"customer": {name: SECRET}, "id": 1}))
        assert json.loads(shown.text or "") == {"customer": {"card": REPLACEMENT}, "id": 1}


def test_the_rest_of_the_value_stays_readable() -> None:
    data = json.dumps({"customer": {"card": SECRET, "name": "Zoë"}, "items": [1, 2]}).encode()
    shown = renderer(CARD, wanted=Format.HEX).value(data)
    assert (shown.format, json.loads(shown.text or "")) == (
        Format.JSON,
        {"customer": {"card": REPLACEMENT, "name": "Zoë"}, "items": [1, 2]},
    )


def test_other_topics_and_readers_without_rules_see_the_value() -> None:
    data = json.dumps({"customer": {"card": SECRET}}).encode()
    for reader in (renderer(CARD, topic="orders"), renderer()):
        assert not reader.masks and SECRET in (reader.value(data).text or "")
    assert renderer(CARD).masks


def test_a_rule_without_a_path_hides_the_whole() -> None:
    reader = renderer(MaskRule("*", KEY), MaskRule("*", VALUE, "$"))
    assert reader.key(b'{"a": 1}').format == reader.value(b'{"a": 1}').format == MASKED
    assert reader.value(None).text is None, "a tombstone is visible"


def test_headers_are_masked_by_name_without_case() -> None:
    reader = renderer(MaskRule("*", HEADER, "x-auth*"))
    assert reader.header("X-Auth-Token", b"secret").text == REPLACEMENT
    assert reader.header("trace", b"17").text == "17"
    assert reader.header("x-auth", None).text is None


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("$.a", {"a": 1, "b": 2}, {"a": REPLACEMENT, "b": 2}),
        ("$.a.b", {"a": [{"b": 1}, {"c": 2}]}, {"a": [{"b": REPLACEMENT}, {"c": 2}]}),
        ("$.a[*].b", {"a": [{"b": 1}]}, {"a": [{"b": REPLACEMENT}]}),
        ("$['a b'].c", {"a b": {"c": 1}}, {"a b": {"c": REPLACEMENT}}),
        ("$.*.c", {"a": {"c": 1}, "b": {"c": 2, "d": 3}}, {"a": {"c": REPLACEMENT}, "b": {"c": REPLACEMENT, "d": 3}}),
        ("$..c", {"c": 1, "a": [{"c": {"d": 2}}, 3]}, {"c": REPLACEMENT, "a": [{"c": REPLACEMENT}, 3]}),
        ("$..c.d", {"c": {"d": 1, "e": 2}}, {"c": {"d": REPLACEMENT, "e": 2}}),
        ("$.a.b", {"a": 5}, {"a": REPLACEMENT}),
        ("$.a.b", {"a": None}, {"a": None}),
    ],
)
def test_a_path_is_applied(path: str, before: Any, after: Any) -> None:
    assert apply_path(before, parse_path(path)) == after


@pytest.mark.parametrize("path", ["a.b", "$.", "$.a[0]", "$a", "$.a..", "$." + "a" * 300, "$" + ".a" * 30, "$[?(@.a)]"])
def test_a_path_that_is_not_supported_is_rejected(path: str) -> None:
    with pytest.raises(Rejected) as rejection:
        parse_path(path)
    assert rejection.value.field == "field"


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        (MaskRule("", VALUE), "topics"),
        (MaskRule("a b", VALUE), "topics"),
        (MaskRule("[ab]", VALUE), "topics"),
        (MaskRule("a", HEADER), "field"),
        (MaskRule("a", KEY, "b"), "field"),
    ],
)
def test_a_rule_that_could_not_apply_is_rejected(rule: MaskRule, field: str) -> None:
    with pytest.raises(Rejected) as rejection:
        check_rule(rule)
    assert rejection.value.field == field
    check_rule(CARD)
    check_rule(MaskRule("orders-1_x", HEADER, "auth*"))


def test_a_value_that_is_nested_too_deeply_is_hidden() -> None:
    deep = b'{"a":' * 960 + f'"{SECRET}"'.encode() + b"}" * 960
    shown = renderer(MaskRule("*", VALUE, "$..card")).value(deep)
    assert shown.format == MASKED or "card" not in (shown.text or "")
    assert renderer(CARD).value(b"[" * 100_000).format == MASKED
