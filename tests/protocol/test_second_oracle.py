"""Complete frames with headers, compared with kafka-python's codecs: the same bytes and values both ways, over all values of a field.

kio, the first oracle, has its own types for errors and durations and gets small numbers only; this one takes all values.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import kafka.protocol
import pytest
from kafka.protocol.api_message import ApiMessage

from brokerd.wire import framing
from brokerd.wire.apis import APIS, Api
from brokerd.wire.schema import Struct
from tests.protocol.generate import Generator
from tests.protocol.test_messages_oracle import CASES, comparable_value, normalized_name

SAMPLES = 30
NOT_THERE = {
    "CreateDelegationToken": range(1, 4),
    "RenewDelegationToken": range(1, 3),
    "ExpireDelegationToken": range(1, 3),
    "DescribeDelegationToken": range(1, 4),
    "ConsumerGroupHeartbeat": range(2),
    "ConsumerGroupDescribe": range(2),
    "ShareGroupHeartbeat": range(1, 2),
    "ShareGroupDescribe": range(1, 2),
    "ShareFetch": range(1, 3),
    "ShareAcknowledge": range(1, 3),
    "InitializeShareGroupState": range(1),
    "ReadShareGroupState": range(1),
    "WriteShareGroupState": range(2),
    "DeleteShareGroupState": range(1),
    "ReadShareGroupStateSummary": range(2),
    "StreamsGroupHeartbeat": range(1),
    "StreamsGroupDescribe": range(1),
    "DescribeShareGroupOffsets": range(2),
    "AlterShareGroupOffsets": range(1),
    "DeleteShareGroupOffsets": range(1),
}
WITHOUT_ORACLE: set[tuple[str, int, str]] = {
    (name, v, side) for name, versions in NOT_THERE.items() for v in versions for side in ("request", "response")
}
"""(API, version, side) that kafka-python does not have: delegation tokens, the consumer group protocol, share groups. A newly missing one must be added here."""


def _classes() -> dict[str, Any]:
    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in module.name and ".schemas" not in module.name and "generate" not in module.name:
            importlib.import_module(module.name)
    found: dict[str, Any] = {}
    todo: list[Any] = [ApiMessage]
    while todo:
        for cls in todo.pop().__subclasses__():
            found.setdefault(cls.__name__, cls)
            todo.append(cls)
    return found


CLASSES = _classes()


def has_oracle(api: Api, version: int, side: str) -> bool:
    cls = CLASSES.get(f"{api.name}{side.capitalize()}")
    return cls is not None and version <= cls.max_version


COMPARED = [case for case in CASES if has_oracle(*case)]


def test_messages_without_a_second_oracle_are_listed() -> None:
    assert {(a.name, v, s) for a, v, s in CASES if not has_oracle(a, v, s)} == WITHOUT_ORACLE
    assert len(COMPARED) + len(WITHOUT_ORACLE) == len(CASES)


def frame_message(api: Api, version: int, side: str, number: int, value: Struct) -> bytes:
    if side == "request":
        return framing.encode_request(api.key, version, number, f"client-{number}" if number % 3 else None, value)
    return b"".join(bytes(p) for p in framing.encode_response(api.key, version, number, value))  # type: ignore[arg-type]


@pytest.mark.parametrize(("api", "version", "side"), COMPARED, ids=[f"{a.name}-v{v}-{s}" for a, v, s in COMPARED])
def test_frames_are_the_same_to_the_byte(api: Api, version: int, side: str) -> None:
    cls = CLASSES[f"{api.name}{side.capitalize()}"]
    for number in range(SAMPLES):
        value = Generator(number).message(api.request if side == "request" else api.response, version)
        if cls.__name__ == "ApiVersionsResponse":
            value.error_code = 0  # with an error they read the body in version 0
        data = frame_message(api, version, side, number, value)
        theirs = cls.decode(data, version=version, header=True, framed=True)
        assert theirs.header.correlation_id == number
        assert_same(comparable_value(value), theirs, version)
        # And what they write of it.
        assert bytes(cls.encode(theirs, header=True, framed=True)) == data


def assert_same(mine: Any, theirs: Any, version: int) -> None:
    """Compares field by field, by name. Fields that a version does not contain may have any default."""
    if isinstance(mine, dict):
        names = {normalized_name(n): n for n in theirs.__slots__} if hasattr(theirs, "__slots__") else {}
        for name, value in mine.items():
            other = names.get(normalized_name(name))
            if name.endswith("authorized_operations"):
                continue  # a set of names there
            if other is not None and is_carried(theirs, other, version):
                assert_same(value, getattr(theirs, other), version)
    elif isinstance(mine, list):
        assert isinstance(theirs, list | tuple), (mine, theirs)
        assert len(mine) == len(theirs)
        for a, b in zip(mine, theirs, strict=True):
            assert_same(a, b, version)
    else:
        other = bytes(theirs) if isinstance(theirs, memoryview | bytearray) else theirs
        assert mine == other or (str(mine) == str(other) and not isinstance(mine, int)), (mine, other)


def is_carried(theirs: Any, name: str, version: int) -> bool:
    field = theirs._struct.fields.get(name)
    return field is not None and field.for_version_q(version) and not field.tagged_field_q(version)


@pytest.mark.parametrize(("key", "version"), [(3, 8), (3, 9), (18, 2), (18, 3), (1, 12)])
def test_the_oracles_request_headers_are_read(key: int, version: int) -> None:
    api = APIS[key]
    cls = CLASSES[f"{api.name}Request"]
    for client in ("kafka-python", "größe", None):
        theirs = cls[version](**({"client_software_name": "a", "client_software_version": "1"} if key == 18 else {}))
        theirs.with_header(correlation_id=2**31 - 1, client_id=client)
        data = bytes(theirs.encode(version=version, header=True, framed=True))
        header, _ = framing.decode_request(memoryview(data)[4:])
        assert header == (key, version, 2**31 - 1, client)
