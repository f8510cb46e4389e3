"""Keys of the records of consumer groups, share groups and streams groups in `__consumer_offsets`: the type of the record, the group id, and in some types
another name. Does not contain: which types exist (`consumer.records`, `share_group.records`, `streams_group.records`), the keys of classic groups.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable


def encode_key(record_type: int, names: Iterable[str]) -> bytes:
    """`record_type`: Kafka's version of the key."""
    out = bytearray(struct.pack(">h", record_type))
    for name in names:
        data = name.encode()
        out += struct.pack(">h", len(data)) + data
    return bytes(out)


def decode_key(data: bytes) -> tuple[int, list[str]]:
    """(type of the record, names). Raises ValueError."""
    try:
        (record_type,) = struct.unpack_from(">h", data)
        names, pos = [], 2
        while pos < len(data):
            (n,) = struct.unpack_from(">h", data, pos)
            name = data[pos + 2 : pos + 2 + n]
            if n < 0 or len(name) != n:
                raise ValueError("the record is incomplete")
            names.append(name.decode())
            pos += 2 + n
    except struct.error as e:
        raise ValueError("the record is incomplete") from e
    return record_type, names
