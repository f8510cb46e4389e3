"""Delegation tokens (KIP-48): refused, as Kafka refuses them where `delegation.token.secret.key` is not set.

They would let a job's many workers in without the password of its owner; SCRAM users of their own do that here.
"""

from __future__ import annotations

from typing import Any

from brokerd.dispatch import Handler, Request
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode


def _refuse(response: type[Any]) -> Handler:
    def handler(request: Request) -> None:
        request.reply(response(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED))

    return handler


HANDLERS: dict[int, Handler] = {
    ApiKey.CREATE_DELEGATION_TOKEN: _refuse(m.CreateDelegationTokenResponse),
    ApiKey.RENEW_DELEGATION_TOKEN: _refuse(m.RenewDelegationTokenResponse),
    ApiKey.EXPIRE_DELEGATION_TOKEN: _refuse(m.ExpireDelegationTokenResponse),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _refuse(m.DescribeDelegationTokenResponse),
}
