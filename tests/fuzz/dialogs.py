"""Builds dialogs from bytes: what an unauthenticated peer or a client might send, on which listener, split and damaged in which way.

A dialog is a list of steps with their bytes, so that it can be repeated after a change of the generators.
"""

from __future__ import annotations

import ssl
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import UUID

from crc32c import crc32c

from brokerd.wire import framing, records
from brokerd.wire import messages as m
from brokerd.wire.apis import APIS, ApiKey
from brokerd.wire.compression import compress, decompress
from brokerd.wire.schema import FieldSpec
from tests.fuzz.choices import Choices
from tests.fuzz.stage import PARTITIONS, PASSWORD, PROTOCOLS, TOPICS, USER
from tests.protocol.generate import Generator

Step = list[Any]
"""["open", listener], ["send", line, hex] (encrypted on a TLS listener), ["raw", line, hex] (not encrypted), ["damaged", line, hex, position, xor]
(encrypted, then one byte changed), ["time", ms], ["close", line]. Lines are numbered from 0 in the order of their opening.
"""

STEPS_MAX = 24
EXTREMES = (
    0,
    1,
    -1,
    127,
    128,
    255,
    256,
    32_767,
    32_768,
    65_535,
    99_999,
    100_001,
    2**24,
    2**31 - 1,
    -(2**31),
    2**32 - 1,
)
VARINTS = (
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\x80\x01",
    b"\xff\x7f",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80" * 12,
)
NAMES = (*TOPICS, "__consumer_offsets", "__transaction_state", "none", "made")
GROUPS = ("g", "h", "", "new")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TOKENS = (
    b"\0%b\0%b" % (USER.encode(), PASSWORD.encode()),
    b"\0alice\0guess",
    b"\0nobody\0guess",
    b"alice\0alice\0the truth",
    b"\0\0\0",
    b"",
    b"n,,n=alice,r=abc",
    b"n,,n=nobody,r=abc",
    b"y,a=alice,n=alice,r=x",
    b"c=biws,r=abc,p=AAAA",
    b"p=tls-unique,,n=alice,r=x",
    b"\x01",
    b"n,,\x01auth=Bearer a.b.c\x01\x01",
    b"n,,\x01auth=Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1In0.\x01\x01",
    b"n,,\x01auth=Bearer eyJhbGciOiJSUzI1NiIsImtpZCI6Im9uZSJ9.eyJzdWIiOiJ1In0.AAAA\x01\x01",
    b"n,,n=alice,r=" + b"x" * 60_000,
)
BEFORE = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


class PlausibleGenerator(Generator):
    """Messages that a broker accepts: existing names, plausible numbers, records in batches."""

    def __init__(self, rng: Choices) -> None:
        super().__init__(0)
        self.rng = rng

    def value(self, cls: type, spec: FieldSpec, version: int) -> Any:
        found = super().value(cls, spec, version)
        if isinstance(found, str) and self.rng.random() < 0.8:
            return self.rng.choice((*NAMES, *GROUPS, "range", "consumer", "1", "retention.ms", USER))
        if spec.kind == "records" and self.rng.random() < 0.95:
            return batches(self.rng)
        if spec.kind == "bytes" and self.rng.random() < 0.3:
            return self.rng.choice(TOKENS)
        return found

    def value_of(self, cls: type, kind: str, version: int) -> Any:
        rng = self.rng
        if kind in ("int8", "int16", "int32", "int64") and rng.random() < 0.75:
            return rng.choice(
                (0, 0, 0, 1, 1, 2, -1, 5, 100) if kind == "int8" else (0, 0, 0, 1, 1, 2, -1, 5, 100, 6_000, 30_000)
            )
        if kind == "uuid" and rng.random() < 0.8:
            return UUID(int=rng.randrange(8))
        return super().value_of(cls, kind, version)


def frame(key: int, version: int, body: Any) -> bytes:
    return framing.encode_request(key, version, 7, "c", body)


def message(rng: Choices, keys: tuple[int, ...]) -> bytes:
    """A complete request of one of these APIs: a frame with its length."""
    key = rng.choice(keys)
    api = APIS[key]
    version = rng.randint(api.min_version, api.max_version)
    return frame(key, version, PlausibleGenerator(rng).message(api.request, version))


def produce(rng: Choices) -> bytes:
    """A produce request that is well-formed except for its batches."""
    r = m.ProduceRequest
    partitions = [
        r.PartitionProduceData(index=rng.randrange(PARTITIONS + 1), records=batches(rng))
        for _ in range(rng.randint(1, 3))
    ]
    body = r(
        acks=rng.choice((1, -1, 0)),
        timeout_ms=1_000,
        topic_data=[r.TopicProduceData(name=rng.choice(NAMES), partition_data=partitions)],
    )
    return frame(ApiKey.PRODUCE, rng.randint(3, 12), body)


def looked_up(rng: Choices) -> bytes:
    """A lookup by time: the broker must read batches for the response."""
    r = m.ListOffsetsRequest
    requested = [
        r.ListOffsetsPartition(partition_index=i, timestamp=rng.choice((0, 1, 500, -1, -2, -3, 2**62)))
        for i in range(PARTITIONS)
    ]
    body = r(replica_id=-1, topics=[r.ListOffsetsTopic(name=name, partitions=requested) for name in TOPICS])
    return frame(ApiKey.LIST_OFFSETS, rng.randint(1, 7), body)


_bombs: dict[tuple[int, int, bytes], bytes] = {}
TINY = bytes.fromhex("0c000000000100")
"""The smallest record with a key."""


def compressed_repetition(kind: int, times: int, of: bytes = b"\0") -> bytes:
    """The same bytes repeated, compressed as small as possible."""
    if (kind, times, of) not in _bombs:
        _bombs[kind, times, of] = compress(of * times, kind)
    return _bombs[kind, times, of]


def batches(rng: Choices) -> bytes:
    """One or more batches, with possible damage."""
    out = bytearray()
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        out += batch(rng)
    return bytes(out)


def batch(rng: Choices) -> bytes:
    compression = rng.randrange(5)
    count = rng.choice((1, 1, 2, 5, 50))
    whole = [
        records.Record(
            i,
            rng.choice((0, 1_000, 1_790_000_000_000, 2**62)),
            rng.choice((b"k", b"", None, b"k2")),
            rng.choice((b"v" * 10, None, b"", b"x" * 2_000)),
            rng.choice(((), (("h", b"v"), ("", None)))),
        )
        for i in range(count)
    ]
    idempotent = rng.random() < 0.3
    built = bytearray(
        records.build(
            whole,
            compression=compression,
            producer_id=rng.choice((0, 1, 77)) if idempotent else -1,
            producer_epoch=0 if idempotent else -1,
            base_sequence=rng.choice((0, 1, 5)) if idempotent else -1,
            transactional=rng.random() < 0.1,
            control=rng.random() < 0.05,
        )
    )
    what = rng.random()
    if what < 0.3:
        return bytes(built)
    if what < 0.4:  # a bomb: a small batch with large decompressed content
        kind, outcome = rng.randint(1, 4), rng.choice((1, 1_000, 200_000, 1_000_000, 2**31 - 1))
        if rng.random() < 0.5:
            payload = compressed_repetition(kind, rng.choice((1 << 20, 16 << 20, 64 << 20)))
        else:
            payload = compressed_repetition(kind, min(outcome, 1_000_000), TINY)
        built = bytearray(built[: records.HEADER_BYTES]) + payload
        struct.pack_into(">h", built, 21, kind)
        struct.pack_into(">i", built, 57, outcome)
        struct.pack_into(">i", built, 23, struct.unpack_from(">i", built, 57)[0] - 1)
    elif what < 0.5:  # one wrong field in a record; header and CRC are valid
        inside = bytearray().join(mutated_record(rng, i) for i in range(count))
        built = built[: records.HEADER_BYTES] + compress(bytes(inside), compression)
    elif what < 0.6:  # damaged records; header and CRC are valid
        inside = bytearray(
            decompress(bytes(built[records.HEADER_BYTES :]), compression)
            if compression
            else built[records.HEADER_BYTES :]
        )
        inside = bytearray(damage_bytes(rng, bytes(inside)))
        built = built[: records.HEADER_BYTES] + compress(bytes(inside), compression)
    elif what < 0.8:  # the header
        at, width = rng.choice(
            ((8, 4), (12, 4), (16, 1), (21, 2), (23, 4), (27, 8), (35, 8), (43, 8), (51, 2), (53, 4), (57, 4))
        )
        built[at : at + width] = (rng.choice(EXTREMES) % (1 << 8 * width)).to_bytes(width, "big")
        if at == 8:
            return bytes(built)
    else:
        return damage_bytes(rng, bytes(built))
    struct.pack_into(">i", built, 8, len(built) - records.LENGTH_OVERHEAD)
    struct.pack_into(">I", built, records.CRC_AT, crc32c(bytes(built[records.CRC_FROM :])))
    return bytes(built)


NUMBERS = (0, 1, 2, -1, -2, 63, 64, 8_191, 8_192, 1_000_000_000, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63))


def varint(n: int) -> bytes:
    """Zigzag encoding, as in records."""
    out = bytearray()
    n = (n << 1) ^ (n >> 63)
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def mutated_record(rng: Choices, index: int) -> bytes:
    """One record, mostly valid, else with one wrong number."""
    wrong = (
        rng.choice(("length", "timestamp", "offset", "key", "value", "headers", "name", ""))
        if rng.random() < 0.1
        else ""
    )
    key, value = rng.choice((b"k", None)), rng.choice((b"v" * 20, b"v" * 20, b"x" * 200, None))

    def number(name: str, right: int) -> bytes:
        return varint(rng.choice(NUMBERS) if wrong == name else right)

    body = b"\0" + number("timestamp", rng.choice((0, 0, 3))) + number("offset", index)
    for name, content in (("key", key), ("value", value)):
        body += number(name, -1 if content is None else len(content)) + (content or b"")
    headers = rng.choice((0, 0, 0, 1))
    body += number("headers", headers) + (number("name", 1) + b"h" + varint(-1)) * headers
    return number("length", len(body)) + body


def damage_bytes(rng: Choices, data: bytes) -> bytes:
    """Damaged lengths, counts, varints or tags; truncated, duplicated or moved bytes."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if not out:
            break
        at = rng.randrange(len(out))
        match rng.randrange(9):
            case 0:
                out[at] ^= 1 << rng.randrange(8)
            case 1:
                out[at] = rng.getrandbits(8)
            case 2 | 3:
                width = rng.choice((1, 2, 4, 8))
                out[at : at + width] = (rng.choice(EXTREMES) % (1 << 8 * width)).to_bytes(width, "big")
            case 4:
                out[at : at + rng.choice((0, 1, 2))] = rng.choice(VARINTS)
            case 5:
                del out[at:]
            case 6:
                del out[at : at + rng.randint(1, 8)]
            case 7:
                out[at:at] = out[at : at + rng.randint(1, 64)] * rng.choice((1, 2, 500))
            case 8:
                out[at:at] = rng.randbytes(rng.randint(1, 16))
    return bytes(out[: 1 << 20])


def frame_bytes(rng: Choices, whole: bytes) -> bytes:
    """A frame, mostly with the right length."""
    body = whole[4:]
    if rng.random() < 0.4:
        body = damage_bytes(rng, body)
    length = len(body) if rng.random() < 0.97 else rng.choice(EXTREMES)
    return (length % 2**32).to_bytes(4, "big") + body


def handshake(mechanism: str, version: int = 1) -> bytes:
    return frame(ApiKey.SASL_HANDSHAKE, version, m.SaslHandshakeRequest(mechanism=mechanism))


def proof(token: bytes, version: int = 2) -> bytes:
    return frame(ApiKey.SASL_AUTHENTICATE, version, m.SaslAuthenticateRequest(auth_bytes=token))


def truth() -> bytes:
    return handshake("PLAIN") + proof(TOKENS[0])


def of_an_unauthenticated_peer(rng: Choices) -> bytes:
    """Requests that are allowed before authentication."""
    match rng.randrange(6):
        case 0:
            return handshake(rng.choice((*MECHANISMS, "GSSAPI", "")), rng.randrange(2))
        case 1 | 2:
            token = rng.choice(TOKENS)
            return frame_bytes(rng, proof(damage_bytes(rng, token) if rng.random() < 0.5 else token, rng.randrange(3)))
        case 3:
            token = rng.choice(TOKENS)
            return len(token).to_bytes(4, "big") + token  # without a request header, as after the oldest handshake
        case 4:
            return frame_bytes(rng, message(rng, BEFORE))
        case _:
            return frame_bytes(rng, message(rng, tuple(APIS)))


def of_a_client(rng: Choices) -> bytes:
    match rng.randrange(6):
        case 0:
            return produce(rng)
        case 1:
            return frame_bytes(rng, produce(rng))
        case 2:
            return looked_up(rng)
        case 3:
            return message(rng, tuple(APIS))
        case _:
            return frame_bytes(rng, message(rng, tuple(APIS)))


def _client_hello() -> bytes:
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        client.wrap_bio(incoming, outgoing, server_hostname="x").do_handshake()
    return outgoing.read()


HELLO = _client_hello()


def hello(rng: Choices) -> bytes:
    """The first bytes of a TLS connection, valid or not."""
    first = HELLO
    match rng.randrange(4):
        case 0:
            return damage_bytes(rng, first)
        case 1:
            return first[: rng.randrange(len(first))]
        case 2:  # a TLS record of any kind and length
            return (
                bytes((rng.choice((20, 21, 22, 23, 24, 128)), 3, rng.randrange(5)))
                + rng.randrange(65_536).to_bytes(2, "big")
                + rng.randbytes(rng.choice((0, 3, 300)))
            )
        case _:
            return rng.randbytes(rng.randint(1, 400))


def dialog_of(data: bytes) -> list[Step]:
    """The dialog of these bytes."""
    rng = Choices(data)
    steps: list[Step] = []
    protocols: list[str] = []

    def add_steps(line: int, what: bytes, kind: str = "send") -> None:
        """Adds the bytes in one step, or split."""
        if rng.random() < 0.1 and len(what) > 1:
            at = rng.randrange(1, len(what))
            steps.append([kind, line, what[:at].hex()])
            steps.append([kind, line, what[at:].hex()])
        else:
            steps.append([kind, line, what.hex()])

    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        protocol = rng.choice(PROTOCOLS)
        bare = protocol.endswith("SSL") and rng.random() < 0.3
        line, proven = len(protocols), not protocol.startswith("SASL")
        protocols.append(protocol)
        steps.append(["open" if not bare else "open raw", protocol])
        if bare:
            for _ in range(rng.randint(1, 3)):
                add_steps(line, hello(rng), "raw")
            continue
        if not proven and rng.random() < 0.4:
            add_steps(line, truth())
            proven = True
        speak: Callable[[Choices], bytes] = of_a_client if proven else of_an_unauthenticated_peer
        for _ in range(rng.randint(1, 6)):
            what = speak(rng) if rng.random() < 0.95 else rng.randbytes(rng.randint(1, 600))
            if protocol.endswith("SSL") and rng.random() < 0.05:
                steps.append(["damaged", line, what.hex(), rng.getrandbits(16), 1 << rng.randrange(8)])
            else:
                add_steps(line, what)
        if rng.random() < 0.15:
            steps.append(["time", rng.choice((10, 150, 3_000, 31_000, 400_000))])
        if rng.random() < 0.3:
            steps.append(["close", line])
    return steps


def unauthenticated_only(steps: list[Step]) -> bool:
    """True if no step of the dialog authenticates where that is required: its cost limit is far lower."""
    return all(s[1] != "PLAINTEXT" and s[1] != "SSL" for s in steps if s[0] == "open") and truth().hex() not in "".join(
        s[2] for s in steps if s[0] == "send"
    )
