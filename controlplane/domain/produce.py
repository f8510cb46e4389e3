"""A record that an operator produces: bytes from text in a format, headers, limits. Pure.

Does not contain: the partition of a key, which the client chooses (murmur2, as Kafka's Java client), the producer (`controlplane.clients.producer`).
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from controlplane.domain.errors import Rejected, not_json
from weir_common.phrases import reason_of, sentence
from weir_common.schema_formats import SchemaUnavailable, load_library

COUNT_MAX = 1_000
"""Maximum number of copies of one record in one request: enough for a test; this is not a load generator."""

RECORD_BYTES_MAX = 8 * 1024 * 1024
"""Maximum number of bytes of key, value and headers together. The topic's max.message.bytes is usually lower; the broker checks it."""

REQUEST_BYTES_MAX = 64 * 1024 * 1024
"""Maximum number of bytes of all records of one request: they are in memory until the brokers acknowledge them."""

HEADERS_MAX = 100
"""Maximum number of headers of one record. Clients use fewer."""

HEADER_NAME_CHARS_MAX = 1_000
"""Maximum length of a header's name."""

TIMESTAMP_MS_MAX = 2**62
"""The largest timestamp in Unix milliseconds. The client library adds to it, so it must stay below 2**63."""

COPY_RECORDS_MAX = 1_000
"""Maximum number of records of one copy. A larger copy needs a program that can be stopped and continued."""


class InputFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    HEX = "hex"
    BASE64 = "base64"
    MSGPACK = "msgpack"
    """JSON that is encoded as MessagePack."""


SCHEMA_FORMAT = "schema"
"""A format in addition to InputFormat: JSON that is encoded with a schema of the registry (`controlplane.services.record_encoding`)."""


class CopyTimestamp(StrEnum):
    ORIGINAL = "original"
    NOW = "now"


Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class NewRecord:
    """`value` None: a tombstone. `partition` None: of the key's hash, or random without a key. `timestamp_ms` None: now."""

    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp_ms: int | None = None

    @property
    def size(self) -> int:
        """Bytes of key, value and headers."""
        headers = sum(len(name.encode()) + len(data or b"") for name, data in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


@dataclass(frozen=True, slots=True)
class ProducedRecord:
    """The acknowledgement of one record. `problem`: why it was not written, "" if it was. `unknown`: it may have been written all the same."""

    partition: int | None
    offset: int | None
    problem: str = ""
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class ProduceSummary:
    """`written`: acknowledged records. `unknown`: records without a response in time; they may have been written."""

    written: int = 0
    refused: int = 0
    unknown: int = 0
    problems: list[str] = field(default_factory=list)

    @staticmethod
    def of(records: Sequence[ProducedRecord]) -> ProduceSummary:
        problems = list(dict.fromkeys(r.problem for r in records if r.problem))
        unknown = sum(r.unknown for r in records)
        failed = sum(bool(r.problem) for r in records)
        return ProduceSummary(len(records) - failed, failed - unknown, unknown, problems)


def decode_input(text: str, input_format: InputFormat, name: str) -> bytes:
    """The bytes of a typed key or value. JSON is checked and kept as typed, or encoded as MessagePack. Raises Rejected with the field `name`."""
    try:
        if input_format is InputFormat.HEX:
            return bytes.fromhex(text.removeprefix("0x"))
        if input_format is InputFormat.BASE64:
            return base64.b64decode("".join(text.split()), validate=True)
        if input_format is InputFormat.MSGPACK:
            return bytes(load_library("msgpack").packb(json.loads(text)))
        if input_format is InputFormat.JSON:
            json.loads(text)
        return text.encode()
    except json.JSONDecodeError as error:
        raise not_json(error, name) from None
    except binascii.Error:
        raise Rejected(
            "Not Base64: use only A-Z, a-z, 0-9, + and /, with = at the end up to a multiple of four characters.", name
        ) from None
    except SchemaUnavailable as error:
        raise Rejected(reason_of(error), f"{name}_format") from None
    except UnicodeEncodeError:
        raise Rejected("The text has a character that UTF-8 cannot encode.", name) from None
    except (ValueError, RecursionError, OverflowError):
        if input_format is InputFormat.HEX:
            raise Rejected("Not hexadecimal: each byte has two of the characters 0-9 and a-f.", name) from None
        raise Rejected("The JSON value is nested too deeply, or a number of it is too large.", name) from None


def headers_of_text(text: str) -> list[Header]:
    """Headers of lines `name: value`; a line without a colon is a header with a null value. Raises Rejected."""
    headers: list[Header] = []
    for line in filter(str.strip, text.splitlines()):
        name, colon, value = line.partition(":")
        headers.append((name.strip(), value.strip().encode() if colon else None))
    return headers


def check_record(record: NewRecord, partitions: int, count: int = 1) -> None:
    """Raises Rejected with the invalid field. `partitions`: of the topic."""
    if not 1 <= count <= COUNT_MAX:
        raise Rejected(
            sentence("{count} records is out of range; use 1 to {max}.", count=count, max=f"{COUNT_MAX:,}"), "count"
        )
    if record.partition is not None and not 0 <= record.partition < partitions:
        raise Rejected(
            sentence("The topic has the partitions 0 to {partitions}.", partitions=partitions - 1), "partition"
        )
    if record.timestamp_ms is not None and not 0 <= record.timestamp_ms <= TIMESTAMP_MS_MAX:
        raise Rejected("The timestamp is milliseconds since 1970, 0 or larger.", "timestamp_ms")
    if len(record.headers) > HEADERS_MAX:
        raise Rejected(sentence("At most {max} headers.", max=HEADERS_MAX), "headers")
    if any(not name or len(name) > HEADER_NAME_CHARS_MAX for name, _ in record.headers):
        raise Rejected(
            sentence("A header has a name of 1 to {max} characters.", max=f"{HEADER_NAME_CHARS_MAX:,}"), "headers"
        )
    if record.size > RECORD_BYTES_MAX:
        raise Rejected(
            sentence(
                "The record has {size} bytes, more than {max}.", size=f"{record.size:,}", max=f"{RECORD_BYTES_MAX:,}"
            ),
            "value",
        )
    if record.size * count > REQUEST_BYTES_MAX:
        raise Rejected(
            sentence("All records together have more than {max} bytes. Lower the count.", max=f"{REQUEST_BYTES_MAX:,}"),
            "count",
        )


def check_range(first_offset: int, last_offset: int) -> None:
    """The bound of a copy. Raises Rejected."""
    if first_offset < 0 or last_offset < first_offset:
        raise Rejected("The last offset must not be smaller than the first, and both 0 or larger.", "last_offset")
    if last_offset - first_offset >= COPY_RECORDS_MAX:
        raise Rejected(
            sentence(
                "{last_offset} offsets; one copy has at most {max}. Copy in parts.",
                last_offset=f"{last_offset - first_offset + 1:,}",
                max=f"{COPY_RECORDS_MAX:,}",
            ),
            "last_offset",
        )
