"""Values of any message, from its own description and a seed: nulls, empty ones, extremes, unicode."""

from __future__ import annotations

import dataclasses
import random
from typing import Any
from uuid import UUID

from brokerd.wire.schema import ArrayOf, FieldSpec, _message

RANGES = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
OURS = 10_000
"""Tags from here on are no Kafka's."""
STRINGS = ("", "a", "weir", "größe", "日本語", "x" * 200, "tab\tand\nline")
BYTES = (b"", b"\x00", b"\xff" * 3, bytes(range(256)), b"k" * 20_000)


class Generator:
    def __init__(self, seed: int, *, plain: bool = False) -> None:
        """`plain` keeps to small unsigned numbers, where an oracle has types of its own (durations, ports)."""
        self.rng = random.Random(seed)
        self.plain = plain

    def message(self, cls: type, version: int) -> Any:
        values = {}
        for x in dataclasses.fields(cls):
            spec: FieldSpec = x.metadata["spec"]
            if version not in spec.versions:
                continue
            if spec.tag is not None and spec.tag >= OURS:
                continue  # nobody else knows it
            tagged = spec.tag is not None and version in spec.tagged
            if tagged and self.rng.random() < 0.4:
                continue  # absent
            value = self.value(cls, spec, version)
            if tagged and dataclasses.is_dataclass(value) and value == type(value)():
                continue  # it says nothing, so it is not written, and is read as absent
            values[x.name] = value
        return cls(**values)

    def value(self, cls: type, spec: FieldSpec, version: int) -> Any:
        if version in spec.nullable and self.rng.random() < 0.3:
            return None
        if isinstance(spec.kind, ArrayOf):
            count = self.rng.choice((0, 1, 2, 3))
            if spec.kind.element == "int32" and self.rng.random() < 0.2:
                count = 40  # longer than what is packed by one prepared call
            return [self.value_of(cls, spec.kind.element, version) for _ in range(count)]
        return self.value_of(cls, spec.kind, version)

    def value_of(self, cls: type, kind: str, version: int) -> Any:
        rng = self.rng
        match kind:
            case "bool":
                return rng.random() < 0.5
            case "string":
                return rng.choice(STRINGS)
            case "bytes" | "records":
                return rng.choice(BYTES)
            case "uuid":
                return UUID(int=rng.getrandbits(128) | 1)
            case "float64":
                return rng.choice((0.0, 1.5, -2.25))
            case "uint16":
                return rng.choice((1, 9092, 65535))
            case "uint32":
                return rng.choice((0, 1, 2**32 - 1))
            case "int8" | "int16" | "int32" | "int64":
                if self.plain:
                    return rng.randrange(0, 100)
                bits = RANGES[kind]
                return rng.choice((0, 1, -1, 2**bits - 1, -(2**bits), rng.randrange(-(2**bits), 2**bits)))
        return self.message(getattr(_message(cls), kind), version)
