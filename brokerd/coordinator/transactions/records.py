"""Records of transactional ids in __transaction_state, in Kafka's formats, so that Kafka's tools can read them. Pure.

Value version 0 is written for transaction version 0, value version 1 (flexible, with tagged fields) for transaction version 2 (KIP-890).
An invalid record raises ValueError.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from brokerd.coordinator.transactions.transaction_events import (
    NO_EPOCH,
    NO_ID,
    TransactionMachineState,
    TransactionMetadata,
)
from brokerd.wire.schema import Struct, array, f, packer, unpacker

KEY_VERSION, VALUE_VERSION_MAX = 0, 1
STATUS = {
    TransactionMachineState.EMPTY: 0,
    TransactionMachineState.ONGOING: 1,
    TransactionMachineState.PREPARE_COMMIT: 2,
    TransactionMachineState.PREPARE_ABORT: 3,
    TransactionMachineState.COMPLETE_COMMIT: 4,
    TransactionMachineState.COMPLETE_ABORT: 5,
    TransactionMachineState.DEAD: 6,
    TransactionMachineState.PREPARE_EPOCH_FENCE: 7,
}
_STATES = {number: state for state, number in STATUS.items()}
_VERSION = struct.Struct(">h")


@dataclass(slots=True)
class TransactionLogKey(Struct):
    transactional_id: str = f("string")


@dataclass(slots=True)
class TransactionLogValue(Struct):
    FLEXIBLE = 1

    @dataclass(slots=True)
    class PartitionsSchema(Struct):
        topic: str = f("string")
        partition_ids: list[int] = f(array("int32"))

    producer_id: int = f("int64")
    previous_producer_id: int = f("int64", "1+", default=NO_ID, tag=0, tagged="1+")
    next_producer_id: int = f("int64", "1+", default=NO_ID, tag=1, tagged="1+")
    producer_epoch: int = f("int16")
    transaction_timeout_ms: int = f("int32")
    transaction_status: int = f("int8")
    transaction_partitions: list[TransactionLogValue.PartitionsSchema] | None = f(
        array("PartitionsSchema"), nullable="0+"
    )
    transaction_last_update_timestamp_ms: int = f("int64")
    transaction_start_timestamp_ms: int = f("int64")
    client_transaction_version: int = f("int16", "1+", tag=2, tagged="1+")


def key(transactional_id: str) -> bytes:
    out = bytearray(_VERSION.pack(KEY_VERSION))
    packer(TransactionLogKey, KEY_VERSION, False)(TransactionLogKey(transactional_id), out, [])
    return bytes(out)


def read_key(data: bytes) -> str:
    try:
        if _VERSION.unpack_from(data)[0] != KEY_VERSION:
            raise ValueError(f"unsupported key version {_VERSION.unpack_from(data)[0]}")
        found, _ = unpacker(TransactionLogKey, KEY_VERSION, False)(memoryview(data), 2, len(data), [1_000])
    except (struct.error, IndexError) as e:
        raise ValueError(f"the record is incomplete: {e}") from e
    return str(found.transactional_id)


def value(metadata: TransactionMetadata) -> bytes:
    version = 1 if metadata.version >= 2 or metadata.previous_producer_id != NO_ID else 0
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(metadata.partitions):
        topics.setdefault(topic, []).append(index)
    body = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=STATUS[metadata.state],
        # As in Kafka: null in state Empty.
        transaction_partitions=None
        if metadata.state is TransactionMachineState.EMPTY
        else [TransactionLogValue.PartitionsSchema(topic=t, partition_ids=ids) for t, ids in topics.items()],
        transaction_last_update_timestamp_ms=metadata.updated_wall_ms,
        transaction_start_timestamp_ms=metadata.started_wall_ms,
        client_transaction_version=metadata.version,
    )
    out = bytearray(_VERSION.pack(version))
    packer(TransactionLogValue, version, version >= 1)(body, out, [])
    return bytes(out)


def read_value(data: bytes) -> TransactionMetadata:
    """The last epoch is not written, as in Kafka. After a change of coordinator a repeated InitProducerId is therefore fenced, except with
    transaction version 2, where the last epoch is the previous one."""
    try:
        (version,) = _VERSION.unpack_from(data)
        if not 0 <= version <= VALUE_VERSION_MAX:
            raise ValueError(f"unsupported value version {version}")
        stored, _ = unpacker(TransactionLogValue, version, version >= 1)(memoryview(data), 2, len(data), [100_000])
    except (struct.error, IndexError) as e:
        raise ValueError(f"the record is incomplete: {e}") from e
    if stored.transaction_status not in _STATES:
        raise ValueError(f"unknown transaction status {stored.transaction_status}")
    partitions = frozenset((t.topic, i) for t in stored.transaction_partitions or () for i in t.partition_ids)
    return TransactionMetadata(
        stored.producer_id,
        stored.producer_epoch,
        stored.transaction_timeout_ms,
        _STATES[stored.transaction_status],
        partitions,
        stored.transaction_start_timestamp_ms,
        stored.transaction_last_update_timestamp_ms,
        NO_EPOCH,
        stored.previous_producer_id,
        stored.next_producer_id,
        stored.client_transaction_version,
    )
