"""Role bindings: list, create, delete, and the check of one access. Only administrators change them."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import InputMixin, RowViewSet
from controlplane.domain.access import AclPattern
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.roles import NAME_CHARS_MAX, Access, AccessRole, RoleResource
from controlplane.models import RoleBinding
from controlplane.selectors import role_bindings as selectors
from controlplane.services import authorization
from controlplane.services import role_bindings as services

BINDING = serializers.shape(selectors.RoleBindingRow)
CHECK = serializers.shape(authorization.AccessCheck)


class RoleBindingCreate(serializers.Comment):
    user = drf.CharField(default="", allow_blank=True, max_length=150, help_text="A user of the console.")
    group = drf.CharField(
        default="", allow_blank=True, max_length=150, help_text="A group of users, instead of one user."
    )
    role = drf.ChoiceField(
        choices=[(r.value, r.value) for r in AccessRole],
        help_text="viewer: see the resource. reader: read records. writer: produce. operator: all other changes. owner: all of these.",
    )
    resource_type = drf.ChoiceField(choices=[(r.value, r.value) for r in RoleResource])
    pattern_type = drf.ChoiceField(choices=[(p.value, p.value) for p in AclPattern], default=AclPattern.LITERAL.value)
    resource_name = drf.CharField(max_length=NAME_CHARS_MAX, help_text="A name, a prefix, or * for all names.")


class AccessQuery(drf.Serializer[object]):
    user = drf.CharField(max_length=150)
    access = drf.ChoiceField(choices=[(a.value, a.value) for a in Access])
    resource_type = drf.ChoiceField(choices=[(r.value, r.value) for r in RoleResource])
    resource_name = drf.CharField()


class RoleBindingViewSet(ListModelMixin, RetrieveModelMixin, RowViewSet):
    queryset = RoleBinding.objects.all()
    serializer_class = BINDING
    filterset_class = selectors.RoleBindingFilter
    page_of = staticmethod(selectors.binding_page)
    lookup_url_kwarg = "binding_id"
    noun = "role binding"

    def get_row(self, key: int) -> selectors.RoleBindingRow | None:
        return selectors.binding_row(key)

    @extend_schema(request=RoleBindingCreate, responses={201: BINDING})
    def create(self, request: Request) -> Response:
        """Give a role for the topics or groups that match a pattern. Needs an administrator."""
        values = self.body(RoleBindingCreate)
        services.check_administrator(
            request.user, AuditOperation.ROLE_BINDING_CREATE, values["user"] or values["group"]
        )
        row = services.create_binding(actor=self.actor, **values)
        return Response(BINDING(selectors.binding_shape(row)).data, status=201)

    @extend_schema(request=serializers.RequiredComment, responses={204: None})
    def destroy(self, request: Request, binding_id: int) -> Response:
        """Withdraw the role. The next request of its users is rejected. Needs an administrator."""
        services.check_administrator(request.user, AuditOperation.ROLE_BINDING_DELETE, str(binding_id))
        self.get_object()
        comment = self.body(serializers.RequiredComment)["comment"]
        services.delete_binding(binding_id, actor=self.actor, comment=comment)
        return Response(status=204)


class AccessCheckView(InputMixin):
    @extend_schema(parameters=[AccessQuery], responses=CHECK)
    def get(self, request: Request) -> Response:
        """Check whether a user may do something with a resource, and by which role binding."""
        return Response(CHECK(authorization.check_access(**self.query(AccessQuery))).data)
