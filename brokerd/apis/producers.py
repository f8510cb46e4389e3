"""InitProducerId: numbers for idempotent producers.

Law: ids are random 62-bit numbers; nothing is coordinated, and none repeats after a loss of ZooKeeper (safety.md section 5).
"""

from __future__ import annotations

from collections.abc import Callable

from brokerd.dispatch import Request
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import InitProducerIdRequest, InitProducerIdResponse


class ProducersApi:
    """`draw` gives a producer id never given before."""

    def __init__(self, draw: Callable[[], int]) -> None:
        self._draw = draw

    def init_producer_id(self, request: Request) -> None:
        body: InitProducerIdRequest = request.body
        if body.transactional_id is not None:
            # Transactions are not served yet: refused outright rather than half kept.
            request.reply(
                InitProducerIdResponse(
                    error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, producer_id=-1, producer_epoch=-1
                )
            )
            return
        if body.producer_id >= 0 and 0 <= body.producer_epoch < 32766:
            # KIP-360: the producer asks to go on under a higher epoch.
            request.reply(InitProducerIdResponse(producer_id=body.producer_id, producer_epoch=body.producer_epoch + 1))
            return
        request.reply(InitProducerIdResponse(producer_id=self._draw(), producer_epoch=0))
