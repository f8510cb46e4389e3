"""InitProducerId: numbers for idempotent producers.

Law: ids are random 62-bit numbers; nothing is coordinated, and none repeats after a loss of ZooKeeper (safety.md section 5).
"""

from __future__ import annotations

from collections.abc import Callable

from brokerd.dispatch import Request
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import InitProducerIdRequest, InitProducerIdResponse

NO_TRANSACTIONS = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
"""What whoever wants transactions is told. Kafka has no code for "not built"; of those it has, this is the one that librdkafka,
kafka-python and aiokafka all take as final at once (docs/decisions/013-no-transactions-is-a-refusal.md)."""
NO_TRANSACTIONS_TEXT = (
    "transactions are not served by this cluster; use an idempotent producer without transactional.id"
)


class ProducersApi:
    """`draw` gives a producer id never given before."""

    def __init__(self, draw: Callable[[], int]) -> None:
        self._draw = draw

    def init_producer_id(self, request: Request) -> None:
        body: InitProducerIdRequest = request.body
        if body.transactional_id is not None:
            # Transactions are not served: see NO_TRANSACTIONS. Clients that skip finding the coordinator hear it here.
            request.reply(InitProducerIdResponse(error_code=NO_TRANSACTIONS, producer_id=-1, producer_epoch=-1))
            return
        if body.producer_id >= 0 and 0 <= body.producer_epoch < 32766:
            # KIP-360: the producer asks to go on under a higher epoch.
            request.reply(InitProducerIdResponse(producer_id=body.producer_id, producer_epoch=body.producer_epoch + 1))
            return
        request.reply(InitProducerIdResponse(producer_id=self._draw(), producer_epoch=0))
