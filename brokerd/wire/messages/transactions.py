"""Producer ids (transactions follow). Descriptions only; names, types and versions are Kafka's message definitions' (up to 4.3)."""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.wire.schema import Struct, f


@dataclass(slots=True)
class InitProducerIdRequest(Struct):
    FLEXIBLE = 2

    transactional_id: str | None = f("string", nullable="0+")
    transaction_timeout_ms: int = f("int32")
    producer_id: int = f("int64", "3+", default=-1)
    producer_epoch: int = f("int16", "3+", default=-1)
    enable2_pc: bool = f("bool", "6+")
    keep_prepared_txn: bool = f("bool", "6+")


@dataclass(slots=True)
class InitProducerIdResponse(Struct):
    FLEXIBLE = 2

    throttle_time_ms: int = f("int32")
    error_code: int = f("int16")
    producer_id: int = f("int64", default=-1)
    producer_epoch: int = f("int16")
    ongoing_txn_producer_id: int = f("int64", "6+", default=-1)
    ongoing_txn_producer_epoch: int = f("int16", "6+", default=-1)
