"""SCRAM users: list, create, change the password, delete. A generated password is in the response that creates it, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import RowViewSet
from controlplane.domain import scram_users as rules
from controlplane.models import AccessEntry
from controlplane.selectors import users
from controlplane.services import users as services


@dataclass(frozen=True, slots=True)
class UserPassword:
    """`password`: the generated password, shown only here; null if the request had one."""

    name: str
    password: str | None


PASSWORD = serializers.shape(UserPassword)


class PasswordField(drf.CharField):
    def __init__(self, **options: Any) -> None:
        options.setdefault("help_text", "Null: a password is generated and returned one time.")
        # The service limits the length. A password may start or end with a space.
        super().__init__(allow_null=True, allow_blank=True, trim_whitespace=False, write_only=True, **options)


class UserCreate(serializers.Comment):
    name = drf.CharField(max_length=1000, trim_whitespace=False)
    password = PasswordField(default=None)
    mechanisms = drf.ListField(child=drf.CharField(), default=list(rules.MECHANISMS))
    iterations = drf.IntegerField(default=rules.ITERATIONS_MIN)


class UserAlter(serializers.RequiredComment):
    password = PasswordField(required=True)


class UserViewSet(ListModelMixin, RetrieveModelMixin, RowViewSet):
    queryset = AccessEntry.objects.all()
    filterset_class = users.UserFilter
    page_of = staticmethod(users.user_page)
    ordering = "name"
    lookup_url_kwarg = "name"
    # The name of a user may contain slashes.
    lookup_value_converter = "path"
    noun = "SCRAM user"
    response_is_secret = True

    def get_queryset(self) -> QuerySet[AccessEntry]:
        return users.credentials_by_user()

    def get_serializer_class(self) -> type[serializers.RowSerializer]:
        return serializers.shape(users.UserRow if self.action == "list" else users.UserDetail)

    def get_row(self, key: str) -> users.UserDetail | None:
        return users.user_detail(key)

    @extend_schema(request=UserCreate, responses={201: PASSWORD})
    def create(self, request: Request) -> Response:
        """Create a user. Brokers accept it within a second."""
        values = self.body(UserCreate)
        made = UserPassword(values["name"], services.create_user(actor=self.actor, **values))
        return Response(PASSWORD(made).data, status=201)

    @extend_schema(request=UserAlter, responses={200: PASSWORD})
    def partial_update(self, request: Request, name: str) -> Response:
        """Change the password, for all mechanisms of the user. Open connections stay authenticated."""
        self.get_object()
        changed = UserPassword(name, services.change_password(name, actor=self.actor, **self.body(UserAlter)))
        return Response(PASSWORD(changed).data)

    @extend_schema(request=serializers.RequiredComment, responses={204: None})
    def destroy(self, request: Request, name: str) -> Response:
        """Delete all credentials of the user. ACLs and quotas that name it stay."""
        self.get_object()
        services.delete_user(name, actor=self.actor, comment=self.body(serializers.RequiredComment)["comment"])
        return Response(status=204)
