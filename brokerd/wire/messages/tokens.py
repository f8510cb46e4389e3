"""Messages for delegation tokens (KIP-48). Descriptions only; names, types and versions are from Kafka's message definitions (up to 4.3)."""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.wire.schema import Struct, array, f


@dataclass(slots=True)
class CreateDelegationTokenRequest(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class CreatableRenewers(Struct):
        principal_type: str = f("string")
        principal_name: str = f("string")

    owner_principal_type: str | None = f("string", "3+", nullable="3+")
    owner_principal_name: str | None = f("string", "3+", nullable="3+")
    renewers: list[CreateDelegationTokenRequest.CreatableRenewers] = f(array("CreatableRenewers"))
    max_lifetime_ms: int = f("int64")


@dataclass(slots=True)
class CreateDelegationTokenResponse(Struct):
    FLEXIBLE = 2

    error_code: int = f("int16")
    principal_type: str = f("string")
    principal_name: str = f("string")
    token_requester_principal_type: str = f("string", "3+")
    token_requester_principal_name: str = f("string", "3+")
    issue_timestamp_ms: int = f("int64")
    expiry_timestamp_ms: int = f("int64")
    max_timestamp_ms: int = f("int64")
    token_id: str = f("string")
    hmac: bytes = f("bytes")
    throttle_time_ms: int = f("int32")


@dataclass(slots=True)
class RenewDelegationTokenRequest(Struct):
    FLEXIBLE = 2

    hmac: bytes = f("bytes")
    renew_period_ms: int = f("int64")


@dataclass(slots=True)
class RenewDelegationTokenResponse(Struct):
    FLEXIBLE = 2

    error_code: int = f("int16")
    expiry_timestamp_ms: int = f("int64")
    throttle_time_ms: int = f("int32")


@dataclass(slots=True)
class ExpireDelegationTokenRequest(Struct):
    FLEXIBLE = 2

    hmac: bytes = f("bytes")
    expiry_time_period_ms: int = f("int64")


@dataclass(slots=True)
class ExpireDelegationTokenResponse(Struct):
    FLEXIBLE = 2

    error_code: int = f("int16")
    expiry_timestamp_ms: int = f("int64")
    throttle_time_ms: int = f("int32")


@dataclass(slots=True)
class DescribeDelegationTokenRequest(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class DescribeDelegationTokenOwner(Struct):
        principal_type: str = f("string")
        principal_name: str = f("string")

    owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None = f(
        array("DescribeDelegationTokenOwner"), nullable="0+"
    )


@dataclass(slots=True)
class DescribeDelegationTokenResponse(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class DescribedDelegationTokenRenewer(Struct):
        principal_type: str = f("string")
        principal_name: str = f("string")

    @dataclass(slots=True)
    class DescribedDelegationToken(Struct):
        principal_type: str = f("string")
        principal_name: str = f("string")
        token_requester_principal_type: str = f("string", "3+")
        token_requester_principal_name: str = f("string", "3+")
        issue_timestamp: int = f("int64")
        expiry_timestamp: int = f("int64")
        max_timestamp: int = f("int64")
        token_id: str = f("string")
        hmac: bytes = f("bytes")
        renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer] = f(
            array("DescribedDelegationTokenRenewer")
        )

    error_code: int = f("int16")
    tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken] = f(array("DescribedDelegationToken"))
    throttle_time_ms: int = f("int32")
