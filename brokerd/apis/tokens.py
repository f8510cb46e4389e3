"""Delegation tokens (KIP-48) are not supported. Responses are those of a Kafka broker without `delegation.token.secret.key`.

In Kafka, tokens give the workers of a job access without the password of the job's owner. Here, use SCRAM users for this purpose.
"""

from __future__ import annotations

from typing import Any

from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import AuthHelper
from brokerd.net.request import Handler, Request
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode

OWNER_SINCE = 3
"""First version in which a token may be for another user than the requester (KIP-373)."""


class TokensApi:
    def __init__(self, auth: AuthHelper) -> None:
        self._auth = auth

    def handlers(self) -> dict[int, Handler]:
        return {
            ApiKey.CREATE_DELEGATION_TOKEN: self.create,
            ApiKey.RENEW_DELEGATION_TOKEN: _reject(m.RenewDelegationTokenResponse),
            ApiKey.EXPIRE_DELEGATION_TOKEN: _reject(m.ExpireDelegationTokenResponse),
            ApiKey.DESCRIBE_DELEGATION_TOKEN: _reject(m.DescribeDelegationTokenResponse),
        }

    def create(self, request: Request) -> None:
        """Reject the creation of a token. Only a token for another user requires a permission, as in Kafka. The other token APIs are rejected before any ACL is
        checked."""
        body: m.CreateDelegationTokenRequest = request.body
        error = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        if request.header.api_version >= OWNER_SINCE and body.owner_principal_name:
            owner = f"{body.owner_principal_type}:{body.owner_principal_name}"
            if owner != request.principal and not self._auth.authorize(
                request, Operation.CREATE_TOKENS, Resource.USER, owner
            ):
                error = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        request.reply(m.CreateDelegationTokenResponse(error_code=error))


def _reject(response: type[Any]) -> Handler:
    def handler(request: Request) -> None:
        request.reply(response(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED))

    return handler
