"""Reasons why a principal may or may not do an operation: the codes of the REST API. The evaluation is that of the brokers (`brokerd.authz.acls`)."""

from __future__ import annotations

from enum import StrEnum

ANY_HOST = "*"


class PermissionReason(StrEnum):
    SUPER_USER = "super_user"
    DENIED_BY_ACL = "denied_by_acl"
    ALLOWED_BY_ACL = "allowed_by_acl"
    NO_MATCHING_ACL = "no_matching_acl"
    NO_ACL_OF_RESOURCE = "no_acl_of_resource"
    NO_AUTHORIZER = "no_authorizer"
    """The brokers have no authorizer, so they allow every operation."""
