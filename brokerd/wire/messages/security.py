"""Messages for SASL, ACLs, credentials and quotas. Descriptions only; names, types and versions are from Kafka's message definitions (up to 4.3)."""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.wire.schema import Struct, array, f


@dataclass(slots=True)
class SaslHandshakeRequest(Struct):
    mechanism: str = f("string")


@dataclass(slots=True)
class SaslHandshakeResponse(Struct):
    error_code: int = f("int16")
    mechanisms: list[str] = f(array("string"))


@dataclass(slots=True)
class SaslAuthenticateRequest(Struct):
    FLEXIBLE = 2

    auth_bytes: bytes = f("bytes")


@dataclass(slots=True)
class SaslAuthenticateResponse(Struct):
    FLEXIBLE = 2

    error_code: int = f("int16")
    error_message: str | None = f("string", nullable="0+", default=None)
    auth_bytes: bytes = f("bytes")
    session_lifetime_ms: int = f("int64", "1+")


@dataclass(slots=True)
class DescribeAclsRequest(Struct):
    FLEXIBLE = 2

    resource_type_filter: int = f("int8")
    resource_name_filter: str | None = f("string", nullable="0+")
    pattern_type_filter: int = f("int8", "1+", default=3)
    principal_filter: str | None = f("string", nullable="0+")
    host_filter: str | None = f("string", nullable="0+")
    operation: int = f("int8")
    permission_type: int = f("int8")


@dataclass(slots=True)
class DescribeAclsResponse(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class AclDescription(Struct):
        principal: str = f("string")
        host: str = f("string")
        operation: int = f("int8")
        permission_type: int = f("int8")

    @dataclass(slots=True)
    class DescribeAclsResource(Struct):
        resource_type: int = f("int8")
        resource_name: str = f("string")
        pattern_type: int = f("int8", "1+", default=3)
        acls: list[DescribeAclsResponse.AclDescription] = f(array("AclDescription"))

    throttle_time_ms: int = f("int32")
    error_code: int = f("int16")
    error_message: str | None = f("string", nullable="0+", default=None)
    resources: list[DescribeAclsResponse.DescribeAclsResource] = f(array("DescribeAclsResource"))


@dataclass(slots=True)
class CreateAclsRequest(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class AclCreation(Struct):
        resource_type: int = f("int8")
        resource_name: str = f("string")
        resource_pattern_type: int = f("int8", "1+", default=3)
        principal: str = f("string")
        host: str = f("string")
        operation: int = f("int8")
        permission_type: int = f("int8")

    creations: list[CreateAclsRequest.AclCreation] = f(array("AclCreation"))


@dataclass(slots=True)
class CreateAclsResponse(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class AclCreationResult(Struct):
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+", default=None)

    throttle_time_ms: int = f("int32")
    results: list[CreateAclsResponse.AclCreationResult] = f(array("AclCreationResult"))


@dataclass(slots=True)
class DeleteAclsRequest(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class DeleteAclsFilter(Struct):
        resource_type_filter: int = f("int8")
        resource_name_filter: str | None = f("string", nullable="0+")
        pattern_type_filter: int = f("int8", "1+", default=3)
        principal_filter: str | None = f("string", nullable="0+")
        host_filter: str | None = f("string", nullable="0+")
        operation: int = f("int8")
        permission_type: int = f("int8")

    filters: list[DeleteAclsRequest.DeleteAclsFilter] = f(array("DeleteAclsFilter"))


@dataclass(slots=True)
class DeleteAclsResponse(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class DeleteAclsMatchingAcl(Struct):
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+", default=None)
        resource_type: int = f("int8")
        resource_name: str = f("string")
        pattern_type: int = f("int8", "1+", default=3)
        principal: str = f("string")
        host: str = f("string")
        operation: int = f("int8")
        permission_type: int = f("int8")

    @dataclass(slots=True)
    class DeleteAclsFilterResult(Struct):
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+", default=None)
        matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl] = f(array("DeleteAclsMatchingAcl"))

    throttle_time_ms: int = f("int32")
    filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult] = f(array("DeleteAclsFilterResult"))


@dataclass(slots=True)
class DescribeClientQuotasRequest(Struct):
    FLEXIBLE = 1

    @dataclass(slots=True)
    class ComponentData(Struct):
        entity_type: str = f("string")
        match_type: int = f("int8")
        match: str | None = f("string", nullable="0+")

    components: list[DescribeClientQuotasRequest.ComponentData] = f(array("ComponentData"))
    strict: bool = f("bool")


@dataclass(slots=True)
class DescribeClientQuotasResponse(Struct):
    FLEXIBLE = 1

    @dataclass(slots=True)
    class EntityData(Struct):
        entity_type: str = f("string")
        entity_name: str | None = f("string", nullable="0+")

    @dataclass(slots=True)
    class ValueData(Struct):
        key: str = f("string")
        value: float = f("float64")

    @dataclass(slots=True)
    class EntryData(Struct):
        entity: list[DescribeClientQuotasResponse.EntityData] = f(array("EntityData"))
        values: list[DescribeClientQuotasResponse.ValueData] = f(array("ValueData"))

    throttle_time_ms: int = f("int32")
    error_code: int = f("int16")
    error_message: str | None = f("string", nullable="0+", default=None)
    entries: list[DescribeClientQuotasResponse.EntryData] | None = f(array("EntryData"), nullable="0+")


@dataclass(slots=True)
class AlterClientQuotasRequest(Struct):
    FLEXIBLE = 1

    @dataclass(slots=True)
    class EntityData(Struct):
        entity_type: str = f("string")
        entity_name: str | None = f("string", nullable="0+")

    @dataclass(slots=True)
    class OpData(Struct):
        key: str = f("string")
        value: float = f("float64")
        remove: bool = f("bool")

    @dataclass(slots=True)
    class EntryData(Struct):
        entity: list[AlterClientQuotasRequest.EntityData] = f(array("EntityData"))
        ops: list[AlterClientQuotasRequest.OpData] = f(array("OpData"))

    entries: list[AlterClientQuotasRequest.EntryData] = f(array("EntryData"))
    validate_only: bool = f("bool")


@dataclass(slots=True)
class AlterClientQuotasResponse(Struct):
    FLEXIBLE = 1

    @dataclass(slots=True)
    class EntityData(Struct):
        entity_type: str = f("string")
        entity_name: str | None = f("string", nullable="0+")

    @dataclass(slots=True)
    class EntryData(Struct):
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+", default=None)
        entity: list[AlterClientQuotasResponse.EntityData] = f(array("EntityData"))

    throttle_time_ms: int = f("int32")
    entries: list[AlterClientQuotasResponse.EntryData] = f(array("EntryData"))


@dataclass(slots=True)
class DescribeUserScramCredentialsRequest(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class UserName(Struct):
        name: str = f("string")

    users: list[DescribeUserScramCredentialsRequest.UserName] | None = f(array("UserName"), nullable="0+")


@dataclass(slots=True)
class DescribeUserScramCredentialsResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class CredentialInfo(Struct):
        mechanism: int = f("int8")
        iterations: int = f("int32")

    @dataclass(slots=True)
    class DescribeUserScramCredentialsResult(Struct):
        user: str = f("string")
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+", default=None)
        credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo] = f(array("CredentialInfo"))

    throttle_time_ms: int = f("int32")
    error_code: int = f("int16")
    error_message: str | None = f("string", nullable="0+", default=None)
    results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult] = f(
        array("DescribeUserScramCredentialsResult")
    )


@dataclass(slots=True)
class AlterUserScramCredentialsRequest(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class ScramCredentialDeletion(Struct):
        name: str = f("string")
        mechanism: int = f("int8")

    @dataclass(slots=True)
    class ScramCredentialUpsertion(Struct):
        name: str = f("string")
        mechanism: int = f("int8")
        iterations: int = f("int32")
        salt: bytes = f("bytes")
        salted_password: bytes = f("bytes")

    deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = f(array("ScramCredentialDeletion"))
    upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = f(array("ScramCredentialUpsertion"))


@dataclass(slots=True)
class AlterUserScramCredentialsResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class AlterUserScramCredentialsResult(Struct):
        user: str = f("string")
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+", default=None)

    throttle_time_ms: int = f("int32")
    results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult] = f(
        array("AlterUserScramCredentialsResult")
    )
