"""Every message in every version against kio, which is generated from Kafka's own definitions: same bytes, same fields, both ways."""

from __future__ import annotations

import dataclasses
import importlib
import io
import re
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from brokerd.wire.apis import APIS, Api
from brokerd.wire.schema import ArrayOf, Struct, _message, packer, unpacker
from tests.protocol.generate import OURS, Generator

SAMPLES = 12
CASES = [
    (api, version, side)
    for api in APIS.values()
    for version in range(api.min_version, api.max_version + 1)
    for side in ("request", "response")
]
# Errors are an enumeration there, durations are timedeltas and some strings are checked: numbers must stay small for it.


def name_of(api: Api) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", api.name).lower()


def oracle_type(api: Api, version: int, side: str) -> Any:
    module = importlib.import_module(f"kio.schema.{name_of(api)}.v{version}.{side}")
    return getattr(module, f"{api.name}{side.capitalize()}")


def our_message(api: Api, side: str) -> type[Struct]:
    return api.request if side == "request" else api.response


def pack(api: Api, version: int, side: str, value: Any) -> bytes:
    out = bytearray()
    regions: list[Any] = []
    packer(our_message(api, side), version, api.flexible(version))(value, out, regions)
    assert not regions
    return bytes(out)


def unpack(api: Api, version: int, side: str, data: bytes) -> Any:
    value, end = unpacker(our_message(api, side), version, api.flexible(version))(
        memoryview(data), 0, len(data), [1_000]
    )
    assert end == len(data), f"{len(data) - end} bytes were left"
    return value


@pytest.mark.parametrize(("api", "version", "side"), CASES, ids=[f"{a.name}-v{v}-{s}" for a, v, s in CASES])
def test_the_oracle_reads_what_we_write_and_writes_the_same(api: Api, version: int, side: str) -> None:
    kind = oracle_type(api, version, side)
    read, write = entity_reader(kind), entity_writer(kind)
    for seed in range(SAMPLES):
        value = Generator(seed, plain=True).message(our_message(api, side), version)
        data = pack(api, version, side, value)
        theirs, size = read(data, 0)
        assert size == len(data), f"the oracle read {size} of {len(data)} bytes"
        out = io.BytesIO()
        write(out, theirs)
        assert out.getvalue() == data
        assert comparable_value(unpack(api, version, side, data)) == comparable_value(value)


def comparable_value(value: Any) -> Any:
    """Comparable: memory views become bytes, messages become dictionaries."""
    if isinstance(value, Struct):
        return {x.name: comparable_value(getattr(value, x.name)) for x in dataclasses.fields(value)}  # type: ignore[arg-type]
    if isinstance(value, list):
        return [comparable_value(v) for v in value]
    return bytes(value) if isinstance(value, memoryview | bytearray) else value


@pytest.mark.parametrize(("api", "version", "side"), CASES, ids=[f"{a.name}-v{v}-{s}" for a, v, s in CASES])
def test_fields_have_kafkas_order_and_names(api: Api, version: int, side: str) -> None:
    """Two swapped numbers of the same size would pass the comparison of bytes."""
    compare(our_message(api, side), oracle_type(api, version, side), version)


def compare(mine: type, theirs: Any, version: int) -> None:
    specs = {x.name: x.metadata["spec"] for x in dataclasses.fields(mine)}
    carried = [
        x for x in dataclasses.fields(mine) if version in specs[x.name].versions and (specs[x.name].tag or 0) < OURS
    ]
    fixed = [x for x in carried if x.metadata["spec"].tag is None or version not in x.metadata["spec"].tagged]
    tagged = {x.metadata["spec"].tag: x.name for x in carried if x not in fixed}
    they = dataclasses.fields(theirs)
    assert [normalized_name(x.name) for x in fixed] == [
        normalized_name(x.name) for x in they if "tag" not in x.metadata
    ]
    their_tags = {x.metadata["tag"]: x.name for x in they if "tag" in x.metadata}
    assert {t: normalized_name(n) for t, n in tagged.items()} == {t: normalized_name(their_tags[t]) for t in tagged}
    nested = {normalized_name(x.name): x for x in they}
    for x in carried:
        kind = x.metadata["spec"].kind
        element = kind.element if isinstance(kind, ArrayOf) else kind
        if element[0].isupper():
            compare(getattr(_message(mine), element), entity_of(theirs, nested[normalized_name(x.name)]), version)


def normalized_name(name: str) -> str:
    """Without units and underscores, which the oracle's own types removed from names."""
    return re.sub(r"(_timestamp)?(_ms)?$", "", name).replace("_", "").removesuffix("ms")


def entity_of(owner: Any, field: Any) -> Any:
    if isinstance(field.type, type):
        return field.type
    found = re.search(r"(\w+)(?=\s*(?:,\s*\.\.\.)?\]|\s*\||$)", str(field.type))
    assert found, field.type
    return getattr(importlib.import_module(owner.__module__), found.group(1))


def test_every_advertised_version_was_compared() -> None:
    assert len(CASES) == 2 * sum(a.max_version - a.min_version + 1 for a in APIS.values())
    assert len(CASES) > 250
