"""Message definitions, compiled per version into straight-line pack and unpack functions.

Invariants: an element count is checked before any allocation, against the remaining bytes (at the minimum size of the elements) and against the
message's element limit. A tagged field with its default value is absent. A message is a dataclass with slots whose fields are made by `f`; its
functions are generated at the first use. Bytes after a message are ignored, as in Kafka. Does not contain sockets and API tables.
"""

from __future__ import annotations

import dataclasses
import struct
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar
from uuid import UUID

from brokerd.wire import primitives
from brokerd.wire.primitives import SCALARS, SMALL, ElementBudget

NO_UUID = UUID(int=0)
UUIDS_MAX = 10_000
"""Maximum number of decoded UUIDs that are cached. Requests repeat the ids of the same topics. A cached UUID costs a third of a new object, and a
comparison with the same object costs nothing."""


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """A range of versions; `high` None means open. "none" is the empty range."""

    low: int
    high: int | None

    @staticmethod
    def parse(text: str) -> Span:
        if text == "none":
            return Span(1, 0)
        if text.endswith("+"):
            return Span(int(text[:-1]), None)
        low, _, high = text.partition("-")
        return Span(int(low), int(high or low))

    def __contains__(self, version: int) -> bool:
        return self.low <= version and (self.high is None or version <= self.high)


@dataclasses.dataclass(frozen=True, slots=True)
class ArrayOf:
    element: str


def array(element: str) -> ArrayOf:
    return ArrayOf(element)


@dataclasses.dataclass(frozen=True, slots=True)
class FieldSpec:
    kind: str | ArrayOf
    versions: Span
    nullable: Span
    tag: int | None
    tagged: Span


def f(
    kind: str | ArrayOf,
    versions: str = "0+",
    *,
    default: Any = dataclasses.MISSING,
    nullable: str = "none",
    tag: int | None = None,
    tagged: str = "none",
) -> Any:
    """A field: its kind (a capitalized kind names a struct of the same message), the versions that contain it, and its default in the
    other versions. Arrays default to empty; a struct in a tagged field defaults to None, which means absent.
    """
    spec = FieldSpec(kind, Span.parse(versions), Span.parse(nullable), tag, Span.parse(tagged))
    metadata = {"spec": spec}
    if default is dataclasses.MISSING:
        if isinstance(kind, ArrayOf):
            return dataclasses.field(default_factory=list, metadata=metadata)
        if kind[0].isupper():
            default = None
        else:
            default = {"string": "", "bytes": b"", "records": None, "uuid": NO_UUID, "bool": False, "float64": 0.0}.get(
                kind, 0
            )
    return dataclasses.field(default=default, metadata=metadata)


class Struct:
    """Base of every message and struct class. Compiled functions are cached per (class, version)."""

    __slots__ = ()
    FLEXIBLE: ClassVar[int | None] = None


PRIMITIVES = (
    "Malformed",
    "put_uvarint",
    "get_uvarint",
    "get_tag_count",
    "get_tag",
    "skip_tags",
    "put_tags",
    "put_numbers",
    "put_records",
    "spend",
    "get_string",
    "string_bytes",
)
"""The names that generated code may use."""

Pack = Callable[[Any, bytearray, list[Any]], None]
Unpack = Callable[[Any, int, int, ElementBudget], tuple[Any, int]]
_packers: dict[tuple[type, int, bool], Pack] = {}
_unpackers: dict[tuple[type, int, bool], Unpack] = {}


def packer(cls: type, version: int, flexible: bool) -> Pack:
    """`pack(value, out, regions)` appends to `out`. A file region in a records field is appended to `regions` as (position, region)."""
    key = (cls, version, flexible)
    if key not in _packers:
        _packers[key] = _Compiler(cls, version, flexible).pack()
    return _packers[key]


def unpacker(cls: type, version: int, flexible: bool) -> Unpack:
    """`unpack(buffer, position, end, budget) -> (value, position)`. Raises ValueError (Malformed, UnicodeDecodeError), struct.error or
    IndexError for invalid bytes; `framing` converts them to one error.
    """
    key = (cls, version, flexible)
    if key not in _unpackers:
        _unpackers[key] = _Compiler(cls, version, flexible).unpack()
    return _unpackers[key]


def bytes_least(cls: type, kind: str | ArrayOf, version: int, flexible: bool) -> int:
    """The minimum size in bytes of a value of this kind. Never 0, so that every element count is limited."""
    if isinstance(kind, ArrayOf) or kind in ("string", "bytes", "records"):
        return 1 if flexible else 2 if kind == "string" else 4
    if kind == "uuid":
        return 16
    if kind in SCALARS:
        return SCALARS[kind][1]
    nested_class = getattr(_message(cls), kind)
    specs: list[FieldSpec] = [x.metadata["spec"] for x in dataclasses.fields(nested_class)]
    is_carried = (s for s in specs if version in s.versions and not (s.tag is not None and version in s.tagged))
    # A nullable struct is one byte if it is null.
    sizes = (
        1
        if isinstance(s.kind, str) and s.kind[0].isupper() and version in s.nullable
        else bytes_least(cls, s.kind, version, flexible)
        for s in is_carried
    )
    return max(1, sum(sizes) + flexible)


def _message(cls: type) -> type:
    """The message that a struct belongs to."""
    found: type = getattr(sys.modules[cls.__module__], cls.__qualname__.partition(".")[0])
    return found


@lru_cache(UUIDS_MAX)
def decoded_uuid(data: bytes) -> UUID:
    """The UUID of 16 bytes."""
    return UUID(bytes=data)


class _Compiler:
    """Generates the code of one class for one version."""

    def __init__(self, cls: type, version: int, flexible: bool) -> None:
        self.cls, self.version, self.flexible = cls, version, flexible
        self.message = _message(cls)
        self.fields = [(x, x.metadata["spec"]) for x in dataclasses.fields(cls)]
        self.names: dict[str, Any] = {
            "decoded_uuid": decoded_uuid,
            "Cls": cls,
            "unpack_from": struct.unpack_from,
        } | {name: getattr(primitives, name) for name in PRIMITIVES}
        self.lines: list[str] = []
        self.serial = 0

    # -- shared ----------------------------------------------------------------------------------------------------
    def nested_class(self, name: str) -> type:
        found: type = getattr(self.message, name)
        return found

    def bind(self, value: Any, stem: str) -> str:
        self.serial += 1
        name = f"{stem}{self.serial}"
        self.names[name] = value
        return name

    def fresh(self, stem: str) -> str:
        self.serial += 1
        return f"{stem}{self.serial}"

    def emit(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def build(self, signature: str, name: str) -> Any:
        source = f"def {signature}:\n" + "\n".join(self.lines or ["    pass"])
        exec(compile(source, f"<{self.cls.__qualname__} v{self.version} {name}>", "exec"), self.names)
        return self.names[name]

    def is_carried(self, spec: FieldSpec) -> bool:
        return self.version in spec.versions and not self.is_tag(spec)

    def is_tag(self, spec: FieldSpec) -> bool:
        return spec.tag is not None and self.version in spec.tagged and self.version in spec.versions

    # -- packing ---------------------------------------------------------------------------------------------------
    def pack(self) -> Pack:
        run: list[tuple[str, str]] = []

        def flush() -> None:
            if run:
                packer_ = self.bind(struct.Struct(">" + "".join(code for code, _ in run)).pack, "S")
                self.emit(1, f"out += {packer_}({', '.join(expr for _, expr in run)})")
                run.clear()

        tags = []
        for fld, spec in self.fields:
            if self.is_tag(spec):
                tags.append((fld, spec))
            if not self.is_carried(spec):
                continue
            if isinstance(spec.kind, str) and spec.kind in SCALARS:
                run.append((SCALARS[spec.kind][0], f"o.{fld.name}"))
                continue
            flush()
            self.pack_value(1, f"o.{fld.name}", spec.kind, self.version in spec.nullable)
        flush()
        if self.flexible:
            if tags:
                self.emit(1, "tags = []")
                for fld, spec in sorted(tags, key=lambda t: t[1].tag or 0):
                    self.emit(1, f"v = o.{fld.name}")
                    default = fld.default
                    if default is dataclasses.MISSING:
                        self.emit(1, "if v:")
                    elif default is None and isinstance(spec.kind, str) and spec.kind[0].isupper():
                        self.emit(1, f"if v is not None and v != {self.bind(self.nested_class(spec.kind)(), 'D')}:")
                    else:
                        self.emit(1, f"if v != {self.bind(default, 'D')}:")
                    self.emit(2, "whole, out = out, bytearray()")
                    self.pack_value(2, "v", spec.kind, self.version in spec.nullable)
                    self.emit(2, f"tags.append(({spec.tag}, out))")
                    self.emit(2, "out = whole")
                self.emit(1, "if tags: put_tags(out, tags)")
                self.emit(1, "else: out.append(0)")
            else:
                self.emit(1, "out.append(0)")
        pack: Pack = self.build("pack(o, out, regions)", "pack")
        return pack

    def pack_value(self, d: int, expr: str, kind: str | ArrayOf, nullable: bool) -> None:
        v = self.fresh("v")
        if isinstance(kind, str) and kind in SCALARS:
            self.emit(d, f"out += {self.bind(struct.Struct('>' + SCALARS[kind][0]).pack, 'S')}({expr})")
        elif kind == "uuid":
            self.emit(d, f"out += {expr}.bytes")
        elif isinstance(kind, str) and kind[0].isupper():
            nested_class = self.nested_class(kind)
            if nullable:
                self.emit(d, f"{v} = {expr}")
                self.emit(d, f"if {v} is None: out += b'\\xff'")
                self.emit(d, "else:")
                self.emit(d + 1, "out += b'\\x01'")
                self.emit(
                    d + 1, f"{self.bind(packer(nested_class, self.version, self.flexible), 'P')}({v}, out, regions)"
                )
            else:
                self.emit(
                    d, f"{self.bind(packer(nested_class, self.version, self.flexible), 'P')}({expr}, out, regions)"
                )
        elif isinstance(kind, ArrayOf):
            self.emit(d, f"{v} = {expr}")
            if nullable:
                self.emit(d, f"if {v} is None: {self.null_length(4)}")
                self.emit(d, "else:")
                d += 1
            if kind.element in SCALARS:
                code = SCALARS[kind.element][0]
                small, n = self.bind(primitives.small_arrays(code, self.flexible), "A"), self.fresh("n")
                self.emit(d, f"{n} = len({v})")
                self.emit(d, f"if {n} < {SMALL}: out += {small}[{n}]({n}{' + 1' if self.flexible else ''}, *{v})")
                self.emit(d, f"else: put_numbers(out, {v}, {code!r}, {self.flexible})")
            else:
                self.put_length(d, f"len({v})", 4)
                e = self.fresh("e")
                if kind.element[0].isupper():
                    p = self.bind(packer(self.nested_class(kind.element), self.version, self.flexible), "P")
                    self.emit(d, f"for {e} in {v}: {p}({e}, out, regions)")
                else:
                    self.emit(d, f"for {e} in {v}:")
                    self.pack_value(d + 1, e, kind.element, False)
        elif kind in ("string", "bytes", "records"):
            self.emit(d, f"{v} = {expr}")
            if nullable:
                self.emit(d, f"if {v} is None: {self.null_length(2 if kind == 'string' else 4)}")
                self.emit(d, "else:")
                d += 1
            if kind == "string":
                self.emit(d, f"{v} = string_bytes({v})")
                self.put_length(d, f"len({v})", 2)
                self.emit(d, f"out += {v}")
            elif kind == "bytes":
                self.put_length(d, f"len({v})", 4)
                self.emit(d, f"out += {v}")
            else:
                self.emit(d, f"put_records(out, regions, {v}, {self.flexible})")
        else:
            raise TypeError(f"no rule to pack {kind!r}")

    def null_length(self, width: int) -> str:
        null = b"\xff" * width
        return "out.append(0)" if self.flexible else f"out += {null!r}"

    def put_length(self, d: int, expr: str, width: int) -> None:
        if self.flexible:
            n = self.fresh("n")
            self.emit(d, f"{n} = {expr} + 1")
            self.emit(d, f"if {n} < 128: out.append({n})")
            self.emit(d, f"else: put_uvarint(out, {n})")
        else:
            code = "h" if width == 2 else "i"
            self.emit(d, f"out += {self.bind(struct.Struct('>' + code).pack, 'S')}({expr})")

    # -- unpacking -------------------------------------------------------------------------------------------------
    def unpack(self) -> Unpack:
        run: list[tuple[str, str]] = []
        values: dict[str, str] = {}

        def flush() -> None:
            if run:
                s = struct.Struct(">" + "".join(code for code, _ in run))
                self.emit(1, f"{', '.join(v for _, v in run)}, = {self.bind(s.unpack_from, 'S')}(buf, pos)")
                self.emit(1, f"pos += {s.size}")
                run.clear()

        tags = []
        for fld, spec in self.fields:
            local = values[fld.name] = f"f_{fld.name}"
            if self.is_carried(spec):
                if isinstance(spec.kind, str) and spec.kind in SCALARS:
                    run.append((SCALARS[spec.kind][0], local))
                    continue
                flush()
                self.unpack_value(1, local, spec.kind, self.version in spec.nullable)
                continue
            if fld.default is not dataclasses.MISSING:
                default = self.bind(fld.default, "D")
            else:
                default = self.bind(fld.default_factory, "D") + "()"
            if self.is_tag(spec):
                tags.append((local, spec))
                self.emit(1, f"{local} = {default}")
            else:
                values[fld.name] = default
        flush()
        if self.flexible:
            self.emit(1, "if buf[pos] == 0: pos += 1")
            if tags:
                self.unpack_tags(tags)
            else:
                self.emit(1, "else: pos = skip_tags(buf, pos, end, budget)")
        arguments = ", ".join(values[fld.name] for fld, _ in self.fields)
        self.emit(1, f"return Cls({arguments}), pos")
        unpack: Unpack = self.build("unpack(buf, pos, end, budget)", "unpack")
        return unpack

    def unpack_tags(self, tags: list[tuple[str, FieldSpec]]) -> None:
        """Known tagged fields must have exactly their stated length. Unknown ones are skipped."""
        self.emit(1, "else:")
        self.emit(2, "whole = end")
        self.emit(2, "count, pos = get_tag_count(buf, pos, end, budget)")
        self.emit(2, "for _ in range(count):")
        self.emit(3, "tag, pos, end = get_tag(buf, pos, whole)")
        for i, (local, spec) in enumerate(tags):
            self.emit(3, f"{'elif' if i else 'if'} tag == {spec.tag}:")
            self.unpack_value(4, local, spec.kind, self.version in spec.nullable)
        self.emit(3, "else: pos = end")
        self.emit(
            3, "if pos != end: raise Malformed('the value of tagged field %d does not have the stated length' % tag)"
        )

    def get_length(self, d: int, width: int) -> str:
        n = self.fresh("n")
        if self.flexible:
            self.emit(d, f"{n} = buf[pos] - 1; pos += 1")
            self.emit(d, f"if {n} >= 127:")
            self.emit(d + 1, f"{n}, pos = get_uvarint(buf, pos - 1); {n} -= 1")
        else:
            code = "h" if width == 2 else "i"
            self.emit(d, f"{n}, = {self.bind(struct.Struct('>' + code).unpack_from, 'S')}(buf, pos); pos += {width}")
        return n

    def unpack_value(self, d: int, target: str, kind: str | ArrayOf, nullable: bool) -> None:
        if isinstance(kind, str) and kind in SCALARS:
            s = struct.Struct(">" + SCALARS[kind][0])
            self.emit(d, f"{target}, = {self.bind(s.unpack_from, 'S')}(buf, pos); pos += {s.size}")
        elif kind == "uuid":
            self.emit(d, "if end - pos < 16: raise Malformed('a uuid is cut off')")
            self.emit(d, f"{target} = decoded_uuid(bytes(buf[pos:pos + 16])); pos += 16")
        elif isinstance(kind, str) and kind[0].isupper():
            u = self.bind(unpacker(self.nested_class(kind), self.version, self.flexible), "U")
            if nullable:
                self.emit(d, f"if buf[pos] >= 128: {target} = None; pos += 1")
                self.emit(d, f"else: {target}, pos = {u}(buf, pos + 1, end, budget)")
            else:
                self.emit(d, f"{target}, pos = {u}(buf, pos, end, budget)")
        else:
            width = 2 if kind == "string" else 4
            n = self.get_length(d, width)
            self.emit(d, f"if {n} < 0:")
            if nullable or kind == "records":
                self.emit(d + 1, f"{target} = None")
            else:
                self.emit(d + 1, f"raise Malformed('null where none may be: {target[2:]}')")
            least = bytes_least(self.cls, kind.element, self.version, self.flexible) if isinstance(kind, ArrayOf) else 1
            need = n if least == 1 else f"{n} * {least}"
            complaint = f"'{target[2:]} has length %d, %d bytes remain' % ({n}, end - pos)"
            self.emit(d, f"elif {need} > end - pos: raise Malformed({complaint})")
            self.emit(d, "else:")
            if isinstance(kind, ArrayOf):
                self.unpack_array(d + 1, target, kind.element, n)
            else:
                convert = {
                    "string": "get_string(buf, pos, {n})",
                    "bytes": "bytes(buf[pos:pos + {n}])",
                    "records": "buf[pos:pos + {n}]",
                }[kind]
                self.emit(d + 1, f"{target} = {convert.format(n=n)}; pos += {n}")

    def unpack_array(self, d: int, target: str, element: str, n: str) -> None:
        self.emit(d, f"spend(budget, {n})")
        if element in SCALARS:
            code, size = SCALARS[element]
            self.emit(d, f"{target} = list(unpack_from('>%d{code}' % {n}, buf, pos)); pos += {n} * {size}")
            return
        e = self.fresh("e")
        self.emit(d, f"{target} = []")
        self.emit(d, f"for _ in range({n}):")
        self.unpack_value(d + 1, e, element, False)
        self.emit(d + 1, f"{target}.append({e})")
