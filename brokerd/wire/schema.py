"""Messages described once, compiled per version into straight-line pack and unpack functions.

Laws: a length read from the wire is bounded by the bytes that remain before anything is allocated for it; a tag that equals its
default is absent. A message is a slotted dataclass whose fields are made by `f`; its functions are generated at first use.
Called by `framing` and by tests. Must not come in: sockets, API tables, meaning.
"""

from __future__ import annotations

import dataclasses
import struct
import sys
from collections.abc import Callable
from typing import Any, ClassVar
from uuid import UUID

NO_UUID = UUID(int=0)


class Malformed(ValueError):
    """Bytes that are not what their version's description says."""


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


SCALARS = {
    "bool": ("?", 1), "int8": ("b", 1), "int16": ("h", 2), "uint16": ("H", 2), "int32": ("i", 4), "uint32": ("I", 4),
    "int64": ("q", 8), "float64": ("d", 8),
}  # fmt: skip


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
    """A field: its kind (a capital names a struct of the same message), the versions that carry it, and what stands for it in the others. Arrays default to empty."""
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
    """Base of every described struct. Compiled functions are cached per (class, version)."""

    __slots__ = ()
    FLEXIBLE: ClassVar[int | None] = None


Pack = Callable[[Any, bytearray, list[Any]], None]
Unpack = Callable[[Any, int, int], tuple[Any, int]]
_packers: dict[tuple[type, int, bool], Pack] = {}
_unpackers: dict[tuple[type, int, bool], Unpack] = {}


def packer(cls: type, version: int, flexible: bool) -> Pack:
    """`pack(value, out, regions)` appends to `out`; a file region in a records field goes to `regions` as (position, region)."""
    key = (cls, version, flexible)
    if key not in _packers:
        _packers[key] = _Compiler(cls, version, flexible).pack()
    return _packers[key]


def unpacker(cls: type, version: int, flexible: bool) -> Unpack:
    """`unpack(buffer, position, end) -> (value, position)`. Raises Malformed, struct.error, IndexError or UnicodeDecodeError."""
    key = (cls, version, flexible)
    if key not in _unpackers:
        _unpackers[key] = _Compiler(cls, version, flexible).unpack()
    return _unpackers[key]


# -- the little that generated code calls --------------------------------------------------------------------------------
def put_uvarint(out: bytearray, n: int) -> None:
    while n > 0x7F:
        out.append((n & 0x7F) | 0x80)
        n >>= 7
    out.append(n)


def get_uvarint(buf: Any, pos: int) -> tuple[int, int]:
    n = shift = 0
    while True:
        byte = buf[pos]
        pos += 1
        n |= (byte & 0x7F) << shift
        if byte < 0x80:
            if n > 0xFFFFFFFF:
                raise Malformed("a varint beyond 32 bits")
            return n, pos
        shift += 7
        if shift > 28:
            raise Malformed("a varint of more than 5 bytes")


def skip_tags(buf: Any, pos: int, end: int, known: dict[int, Callable[[int, int], None]] | None = None) -> int:
    count, pos = get_uvarint(buf, pos)
    if count > end - pos:
        raise Malformed("more tagged fields than bytes")
    for _ in range(count):
        tag, pos = get_uvarint(buf, pos)
        size, pos = get_uvarint(buf, pos)
        if size > end - pos:
            raise Malformed(f"tagged field {tag} of {size} bytes, {end - pos} remain")
        if known is not None and tag in known:
            known[tag](pos, pos + size)
        pos += size
    return pos


def put_tags(out: bytearray, regions: list[Any], tags: list[tuple[int, bytearray]]) -> None:
    put_uvarint(out, len(tags))
    for tag, data in tags:
        put_uvarint(out, tag)
        put_uvarint(out, len(data))
        out += data


def put_records(out: bytearray, regions: list[Any], value: Any, flexible: bool) -> None:
    """Records: bytes-like, a file region (anything with `fd`), or a list of those."""
    pieces = value if isinstance(value, list) else (value,)
    size = sum(len(p) for p in pieces)
    if flexible:
        put_uvarint(out, size + 1)
    else:
        out += struct.pack(">i", size)
    for piece in pieces:
        if hasattr(piece, "fd"):
            regions.append((len(out), piece))
        else:
            out += piece


class _Compiler:
    """Writes one class's functions for one version."""

    def __init__(self, cls: type, version: int, flexible: bool) -> None:
        self.cls, self.version, self.flexible = cls, version, flexible
        self.message = getattr(sys.modules[cls.__module__], cls.__qualname__.partition(".")[0])
        self.fields = [(x, x.metadata["spec"]) for x in dataclasses.fields(cls)]
        self.names: dict[str, Any] = {
            "Malformed": Malformed, "UUID": UUID, "put_uvarint": put_uvarint, "get_uvarint": get_uvarint,
            "skip_tags": skip_tags, "put_tags": put_tags, "put_records": put_records, "Cls": cls,
        }  # fmt: skip
        self.lines: list[str] = []
        self.serial = 0

    # -- shared ----------------------------------------------------------------------------------------------------
    def nested(self, name: str) -> type:
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

    def carried(self, spec: FieldSpec) -> bool:
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
            if not self.carried(spec):
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
                    else:
                        self.emit(1, f"if v != {self.bind(default, 'D')}:")
                    self.emit(2, "whole, out = out, bytearray()")
                    self.pack_value(2, "v", spec.kind, self.version in spec.nullable)
                    self.emit(2, f"tags.append(({spec.tag}, out))")
                    self.emit(2, "out = whole")
                self.emit(1, "put_tags(out, regions, tags)")
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
            nested = self.nested(kind)
            if nullable:
                self.emit(d, f"{v} = {expr}")
                self.emit(d, f"if {v} is None: out += b'\\xff'")
                self.emit(d, "else:")
                self.emit(d + 1, "out += b'\\x01'")
                self.emit(d + 1, f"{self.bind(packer(nested, self.version, self.flexible), 'P')}({v}, out, regions)")
            else:
                self.emit(d, f"{self.bind(packer(nested, self.version, self.flexible), 'P')}({expr}, out, regions)")
        elif isinstance(kind, ArrayOf):
            self.emit(d, f"{v} = {expr}")
            if nullable:
                self.emit(d, f"if {v} is None: {self.null_length(4)}")
                self.emit(d, "else:")
                d += 1
            self.put_length(d, f"len({v})", 4)
            if kind.element in SCALARS and kind.element != "bool":
                pack_ = self.bind(struct.pack, "S")
                self.emit(d, f"out += {pack_}('>%d{SCALARS[kind.element][0]}' % len({v}), *{v})")
            else:
                e = self.fresh("e")
                if kind.element[0].isupper():
                    p = self.bind(packer(self.nested(kind.element), self.version, self.flexible), "P")
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
                self.emit(d, f"{v} = {v}.encode()")
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

        for fld, spec in self.fields:
            local = f"f_{fld.name}"
            if not self.carried(spec):
                if fld.default is not dataclasses.MISSING:
                    values[fld.name] = self.bind(fld.default, "D")
                else:
                    assert fld.default_factory is not dataclasses.MISSING
                    factory = self.bind(fld.default_factory, "D")
                    values[fld.name] = f"{factory}()"
                    if self.is_tag(spec):
                        self.emit(1, f"{local} = {factory}()")
                if self.is_tag(spec):
                    if fld.default is not dataclasses.MISSING:
                        self.emit(1, f"{local} = {values[fld.name]}")
                    values[fld.name] = local
                continue
            values[fld.name] = local
            if isinstance(spec.kind, str) and spec.kind in SCALARS:
                run.append((SCALARS[spec.kind][0], local))
                continue
            flush()
            self.unpack_value(1, local, spec.kind, self.version in spec.nullable)
        flush()
        if self.flexible:
            known = []
            for fld, spec in self.fields:
                if self.is_tag(spec):
                    reader = f"t_{fld.name}"
                    self.emit(1, f"def {reader}(pos, end):")
                    self.emit(2, f"nonlocal f_{fld.name}")
                    self.unpack_value(2, f"f_{fld.name}", spec.kind, self.version in spec.nullable)
                    known.append(f"{spec.tag}: {reader}")
            self.emit(
                1, f"if buf[pos] == 0: pos += 1\n    else: pos = skip_tags(buf, pos, end, {{{', '.join(known)}}})"
            )
        arguments = ", ".join(values[fld.name] for fld, _ in self.fields)
        self.emit(1, f"return Cls({arguments}), pos")
        unpack: Unpack = self.build("unpack(buf, pos, end)", "unpack")
        return unpack

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
            self.emit(d, f"{target} = UUID(bytes=bytes(buf[pos:pos + 16])); pos += 16")
        elif isinstance(kind, str) and kind[0].isupper():
            u = self.bind(unpacker(self.nested(kind), self.version, self.flexible), "U")
            if nullable:
                self.emit(d, f"if buf[pos] == 255: {target} = None; pos += 1")
                self.emit(d, f"else: {target}, pos = {u}(buf, pos + 1, end)")
            else:
                self.emit(d, f"{target}, pos = {u}(buf, pos, end)")
        else:
            width = 2 if kind == "string" else 4
            n = self.get_length(d, width)
            self.emit(d, f"if {n} < 0:")
            if nullable or kind == "records":
                self.emit(d + 1, f"{target} = None")
            else:
                self.emit(d + 1, f"raise Malformed('null where none may be: {target[2:]}')")
            self.emit(
                d,
                f"elif {n} > end - pos: raise Malformed('length %d of {target[2:]}, %d bytes remain' % ({n}, end - pos))",
            )
            self.emit(d, "else:")
            if isinstance(kind, ArrayOf):
                self.unpack_array(d + 1, target, kind.element, n)
            else:
                convert = {"string": "str(buf[pos:pos + {n}], 'utf-8')", "bytes": "bytes(buf[pos:pos + {n}])",
                           "records": "buf[pos:pos + {n}]"}[kind]  # fmt: skip
                self.emit(d + 1, f"{target} = {convert.format(n=n)}; pos += {n}")

    def unpack_array(self, d: int, target: str, element: str, n: str) -> None:
        if element in SCALARS:
            code, size = SCALARS[element]
            up = self.bind(struct.unpack_from, "S")
            self.emit(d, f"if {n} * {size} > end - pos: raise Malformed('array of {target[2:]} is cut off')")
            self.emit(d, f"{target} = list({up}('>%d{code}' % {n}, buf, pos)); pos += {n} * {size}")
            return
        e = self.fresh("e")
        self.emit(d, f"{target} = []")
        self.emit(d, f"for _ in range({n}):")
        self.unpack_value(d + 1, e, element, False)
        self.emit(d + 1, f"{target}.append({e})")
