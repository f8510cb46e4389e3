"""API tokens: list, create, revoke. The text of a token is in the response that creates it, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.permissions import MayManageOwnTokens
from controlplane.api.viewsets import RowViewSet
from controlplane.domain.token_scopes import TokenScope, scope_of_role
from controlplane.models import ApiToken
from controlplane.selectors import api_tokens as selectors
from controlplane.services import api_tokens as services
from controlplane.services.authorization import may_change_something


@dataclass(frozen=True, slots=True)
class NewApiToken:
    """`token`: the text of the token, shown only here."""

    row: selectors.ApiTokenRow
    token: str


TOKEN = serializers.shape(selectors.ApiTokenRow)
NEW = serializers.shape(NewApiToken)


class ApiTokenCreate(serializers.Comment):
    name = drf.CharField(max_length=services.NAME_CHARS_MAX)
    scope = drf.ChoiceField(choices=list(TokenScope), help_text="What the token permits, within the role of its user.")
    expires_at = drf.DateTimeField(default=None, allow_null=True, help_text="Null: no end.")


class ApiTokenViewSet(ListModelMixin, RetrieveModelMixin, RowViewSet):
    """The tokens of the user; for a superuser the tokens of all users."""

    queryset = ApiToken.objects.all()
    serializer_class = TOKEN
    filterset_class = selectors.ApiTokenFilter
    page_of = staticmethod(selectors.token_page)
    lookup_url_kwarg = "token_id"
    noun = "API token"
    response_is_secret = True
    permission_classes = (MayManageOwnTokens,)

    def get_queryset(self) -> QuerySet[ApiToken]:
        return selectors.visible_tokens(self.request.user)

    def get_row(self, key: int) -> selectors.ApiTokenRow | None:
        return selectors.token_row(key, self.request.user)

    @extend_schema(request=ApiTokenCreate, responses={201: NEW})
    def create(self, request: Request) -> Response:
        """Create a token for yourself. A token of the scope read or operate cannot create tokens."""
        user = request.user
        body = self.body(ApiTokenCreate)
        limit = scope_of_role(is_operator=may_change_something(user), is_superuser=user.is_superuser)
        row, text = services.create_token(actor=self.actor, limit=limit, **{**body, "scope": TokenScope(body["scope"])})
        return Response(NEW(NewApiToken(selectors.token_shape(row), text)).data, status=201)

    @extend_schema(request=serializers.Comment, responses={204: None})
    def destroy(self, request: Request, token_id: int) -> Response:
        """Revoke the token: its next request is rejected."""
        self.get_object()
        services.revoke_token(token_id, actor=self.actor, comment=self.body(serializers.Comment)["comment"])
        return Response(status=204)
