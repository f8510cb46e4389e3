"""Permissions of a principal: the check of one operation with the rule that decides, and the list of effective permissions."""

from __future__ import annotations

from collections.abc import Sequence

from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.pagination import PageQuery, page_response, page_shape
from controlplane.api.viewsets import InputMixin
from controlplane.domain.access import AclResource
from controlplane.selectors import authorizers, permissions
from controlplane.selectors.paging import Page

AUTHORIZER = serializers.shape(authorizers.AuthorizerReport)
CHECK = serializers.shape(permissions.PermissionCheck)
PAGE = page_shape(Page, name="EffectivePermissionPage", row=permissions.EffectivePermissionRow)


class PrincipalQuery(drf.Serializer[object]):
    principal = drf.CharField(help_text="With the type: User:alice.")
    host = drf.CharField(
        default="", allow_blank=True, help_text="Address of the client; empty: rules for all hosts only."
    )
    super_users = drf.ListField(
        child=drf.CharField(),
        default=list,
        help_text="super.users in addition to those that the brokers report; repeat it for several.",
    )
    allow_if_no_acl = drf.BooleanField(
        default=False, help_text="allow.everyone.if.no.acl.found, if the brokers do not respond."
    )


class CheckQuery(PrincipalQuery):
    resource_type = drf.CharField()
    resource_name = drf.CharField(default="", allow_blank=True)
    operation = drf.CharField()


class PermissionQuery(PageQuery, PrincipalQuery):
    query = drf.CharField(default="", allow_blank=True)
    resource_type = drf.ChoiceField(choices=["", *AclResource], default="", allow_blank=True)


def _options(super_users: Sequence[str], allow_if_no_acl: bool) -> permissions.AuthorizerOptions:
    """The options of the query, completed by the settings of the brokers that answer."""
    return authorizers.authorizer_report().options(permissions.AuthorizerOptions(tuple(super_users), allow_if_no_acl))


class EffectivePermissionsView(InputMixin):
    @extend_schema(parameters=[PermissionQuery], responses={200: PAGE})
    def get(self, request: Request) -> Response:
        """A page of the effective permissions of a principal: one row per resource pattern."""
        v = self.query(PermissionQuery)
        options = _options(v.pop("super_users"), v.pop("allow_if_no_acl"))
        return page_response(request, permissions.permission_list(**v, options=options))


class PermissionCheckView(InputMixin):
    @extend_schema(parameters=[CheckQuery], responses=CHECK)
    def get(self, request: Request) -> Response:
        """The decision about an operation and its reason: deny rules first, then allow rules. Brokers without an authorizer allow every operation."""
        v = self.query(CheckQuery)
        options = _options(v.pop("super_users"), v.pop("allow_if_no_acl"))
        return Response(CHECK(permissions.check_permission(**v, options=options)).data)


class AuthorizerView(InputMixin):
    @extend_schema(responses=AUTHORIZER)
    def get(self, request: Request) -> Response:
        """The authorizer of the brokers: whether they enforce ACLs (`authorizer.class.name`), `super.users` and `allow.everyone.if.no.acl.found`."""
        return Response(AUTHORIZER(authorizers.authorizer_report()).data)
