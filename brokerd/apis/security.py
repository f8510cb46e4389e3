"""The doors of security: SASL and its credentials. What changes is forwarded to the controller, what is asked is read from the image.

Law: of a password only the keys leave this file. Must not come in: who may call (the guards).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from brokerd.access import scram
from brokerd.apis.forwarding import Ask, Forwarding
from brokerd.cluster.metadata import Image
from brokerd.dispatch import Handler, Request
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode

RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE, UNACCEPTABLE_CREDENTIAL = 91, 92, 93
ALTER_TIMEOUT_MS = 30_000


class SecurityApi:
    def __init__(self, image: Callable[[], Image], ask: Ask) -> None:
        self._image = image
        self._forward = Forwarding(ask)

    def handlers(self) -> dict[int, Handler]:
        return {
            ApiKey.SASL_HANDSHAKE: self.handshake,
            ApiKey.SASL_AUTHENTICATE: self.authenticate,
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: self.describe_credentials,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS: self.alter_credentials,
        }

    def handshake(self, request: Request) -> None:
        if request.session.talk is None:
            request.reply(m.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
        else:
            request.session.talk.handshake(request)

    def authenticate(self, request: Request) -> None:
        if request.session.talk is None:
            told = "SaslAuthenticate on a listener without SASL"
            request.reply(m.SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=told))
        else:
            request.session.talk.authenticate(request)

    # -- credentials ---------------------------------------------------------------------------------------------------
    def describe_credentials(self, request: Request) -> None:
        body: m.DescribeUserScramCredentialsRequest = request.body
        by_user: dict[str, list[tuple[int, int]]] = {}
        for code, mechanism in scram.CODES.items():
            for key, (_, value) in self._image().access.get("scram", {}).items():
                name, _, user = key.partition(":")
                if name == mechanism and value is not None:
                    by_user.setdefault(user, []).append((code, int(value["iterations"])))
        asked = [u.name for u in body.users] if body.users else sorted(by_user)
        result = m.DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
        info = m.DescribeUserScramCredentialsResponse.CredentialInfo
        out = []
        for user in dict.fromkeys(asked):
            if asked.count(user) > 1:
                told = "Cannot describe SCRAM credentials for the same user twice in a single request"
                out.append(result(user=user, error_code=DUPLICATE_RESOURCE, error_message=told))
            elif user not in by_user:
                told = "Attempt to describe a user credential that does not exist"
                out.append(result(user=user, error_code=RESOURCE_NOT_FOUND, error_message=told))
            else:
                infos = [info(mechanism=c, iterations=i) for c, i in by_user[user]]
                out.append(result(user=user, credential_infos=infos))
        request.reply(m.DescribeUserScramCredentialsResponse(results=out))

    def alter_credentials(self, request: Request) -> None:
        body: m.AlterUserScramCredentialsRequest = request.body
        known = self._image().access.get("scram", {})
        problems: dict[str, tuple[int, str]] = {}
        items: list[dict[str, Any]] = []
        seen: set[tuple[str, int]] = set()
        changes: list[Any] = [*body.deletions, *body.upsertions]
        for change in changes:
            problem = self._problem(change, known, (change.name, change.mechanism) in seen)
            seen.add((change.name, change.mechanism))
            if problem is not None:
                problems.setdefault(change.name, problem)
                continue
            mechanism = scram.CODES[change.mechanism]
            value = None
            if isinstance(change, m.AlterUserScramCredentialsRequest.ScramCredentialUpsertion):
                made = scram.credential(mechanism, bytes(change.salted_password), bytes(change.salt), change.iterations)
                value = made.to_json()
            items.append({"name": f"{mechanism}:{change.name}", "kind": "scram", "value": value, "user": change.name})
        users = list(dict.fromkeys(c.name for c in changes))
        items = [i for i in items if i["user"] not in problems]  # a user's changes are one: all or none

        def answered(results: Sequence[Mapping[str, Any]]) -> None:
            for item, r in zip(items, results, strict=True):
                if r["error"]:
                    problems.setdefault(item["user"], (r["error"], r.get("message") or ""))
            shape = m.AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
            out = []
            for user in users:
                error, told = problems.get(user, (0, None))
                out.append(shape(user=user, error_code=error, error_message=told))
            request.reply(m.AlterUserScramCredentialsResponse(results=out))

        sent = [{k: v for k, v in i.items() if k != "user"} for i in items]
        self._forward("alter_access", sent, False, ALTER_TIMEOUT_MS, answered)

    @staticmethod
    def _problem(change: Any, known: Mapping[str, Any], again: bool) -> tuple[int, str] | None:
        """Kafka's verdicts, in Kafka's order."""
        if not change.name:
            return UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
        if change.mechanism not in scram.CODES:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
        if again:
            return DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
        if isinstance(change, m.AlterUserScramCredentialsRequest.ScramCredentialDeletion):
            if known.get(f"{scram.CODES[change.mechanism]}:{change.name}", (0, None))[1] is None:
                return RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
            return None
        if change.iterations < scram.ITERATIONS_MIN:
            return UNACCEPTABLE_CREDENTIAL, "Too few iterations"
        if change.iterations > scram.ITERATIONS_MAX:
            return UNACCEPTABLE_CREDENTIAL, "Too many iterations"
        if not change.salt or not change.salted_password:
            return UNACCEPTABLE_CREDENTIAL, "salt and password must not be empty"
        return None
