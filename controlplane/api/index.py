"""The root of the REST API: the paths of its nouns, its schema and its reference."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.api.reference import api_reference
from controlplane.api.viewsets import InputMixin

ROOT = "/api/v1/"


class ApiIndex(drf.Serializer[None]):
    docs = drf.CharField(help_text="The API reference, for people.")
    schema = drf.CharField(help_text="The OpenAPI schema.")
    paths = drf.DictField(child=drf.CharField(), help_text="The first path of each noun.")


class IndexView(InputMixin, APIView):
    @extend_schema(operation_id="index_retrieve", tags=["index"], responses={200: ApiIndex})
    def get(self, request: Request) -> Response:
        """The paths of the API."""
        paths = {
            page.noun: min(page.operations, key=lambda o: (o.path.count("{"), len(o.path))).path
            for page in api_reference()
            if page.noun != "index"
        }
        return Response({"docs": f"{ROOT}docs/", "schema": f"{ROOT}schema", "paths": paths})
