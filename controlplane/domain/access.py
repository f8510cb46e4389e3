"""Enums of access control. Rows, the REST API and the metadata log store the values: Kafka's names in lower case. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class AccessRecordKind(StrEnum):
    """The kind of value in a generic record of the metadata log (`AccessChanged`, `BrokerConfigChanged`)."""

    ACL = "acl"
    SCRAM = "scram"
    QUOTA = "quota"
    GROUP = "group"
    ROUTE = "route"
    BROKER = "broker"


class AclResource(StrEnum):
    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional_id"
    DELEGATION_TOKEN = "delegation_token"
    USER = "user"


class AclPattern(StrEnum):
    LITERAL = "literal"
    PREFIXED = "prefixed"


class AclOperation(StrEnum):
    ALL = "all"
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    CLUSTER_ACTION = "cluster_action"
    DESCRIBE_CONFIGS = "describe_configs"
    ALTER_CONFIGS = "alter_configs"
    IDEMPOTENT_WRITE = "idempotent_write"
    CREATE_TOKENS = "create_tokens"
    DESCRIBE_TOKENS = "describe_tokens"
    TWO_PHASE_COMMIT = "two_phase_commit"


class AclPermission(StrEnum):
    ALLOW = "allow"
    DENY = "deny"


ACL_FIELDS = ("resource_type", "pattern_type", "resource_name", "principal", "host", "operation", "permission")


def acl_key(acl: Mapping[str, str]) -> str:
    """The key of an ACL contains all its fields."""
    return "|".join(acl[f].replace("|", "\\|") for f in ACL_FIELDS)
