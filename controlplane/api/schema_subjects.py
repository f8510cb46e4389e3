"""The schema registry: subjects, one version of a subject, the difference between two versions; check, register, delete."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from drf_spectacular.helpers import forced_singular_serializer
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.pagination import PageQuery, page_response, page_shape
from controlplane.api.viewsets import InputMixin
from controlplane.selectors import schema_subjects as selectors
from controlplane.services import schema_subjects as services

PAGE = page_shape(selectors.SubjectPage)
ONE_PAGE = forced_singular_serializer(PAGE)  # type: ignore[no-untyped-call]
DETAIL = serializers.shape(selectors.SubjectDetail)
CHECKED = serializers.shape(services.CompatibilityCheck)
REGISTERED = serializers.shape(services.RegisteredSchema)
DIFFERENCE = serializers.shape(selectors.SchemaDifference)
VERSION_MAX = 2**31 - 1
"""The registry's numbers have 32 bits."""


class SubjectQuery(PageQuery):
    query = drf.CharField(default="", allow_blank=True, help_text="Part of the name of a subject.")


class SubjectVersionQuery(drf.Serializer[object]):
    name = drf.CharField(help_text="Name of the subject.")
    version = drf.IntegerField(
        default=None, allow_null=True, min_value=1, max_value=VERSION_MAX, help_text="Without it: the latest."
    )


class SchemaDifferenceQuery(drf.Serializer[object]):
    name = drf.CharField(help_text="Name of the subject.")
    version = drf.IntegerField(min_value=1, max_value=VERSION_MAX)
    other = drf.IntegerField(min_value=1, max_value=VERSION_MAX, help_text="The version to compare with.")


class ReferenceBody(drf.Serializer[object]):
    name = drf.CharField()
    subject = drf.CharField()
    version = drf.IntegerField(min_value=1, max_value=VERSION_MAX)


class SchemaBody(drf.Serializer[object]):
    subject = drf.CharField(max_length=services.SUBJECT_CHARS_MAX)
    type = drf.ChoiceField(choices=list(selectors.SCHEMA_TYPES.items()))
    definition = drf.CharField(max_length=services.DEFINITION_CHARS_MAX, trim_whitespace=False)
    references = ReferenceBody(many=True, default=list)

    @staticmethod
    def schema(v: dict[str, Any]) -> services.NewSchema:
        references = tuple(services.SchemaReference(**r) for r in v["references"])
        return services.NewSchema(services.SchemaType(v["type"]), v["definition"], references)


class SchemaRegisterBody(SchemaBody, serializers.RequiredComment):
    pass


class SchemaDeleteBody(serializers.RequiredComment):
    name = drf.CharField(help_text="Name of the subject.")
    version = drf.IntegerField(
        default=None, allow_null=True, min_value=1, max_value=VERSION_MAX, help_text="Null: the whole subject."
    )


class SchemaSubjectsView(InputMixin):
    @extend_schema(operation_id="schema_subjects_list", parameters=[SubjectQuery], responses={200: ONE_PAGE})
    def get(self, request: Request) -> Response:
        """Subjects of the schema registry. Waits for it, at most some seconds; `problem` says why it could not be read. `sort`: name."""
        return page_response(request, selectors.subject_list(**self.query(SubjectQuery)))


class SchemaSubjectView(InputMixin):
    @extend_schema(operation_id="schema_subject_retrieve", parameters=[SubjectVersionQuery], responses={200: DETAIL})
    def get(self, request: Request) -> Response:
        """One version of a subject."""
        requested = self.query(SubjectVersionQuery)
        found = selectors.subject_detail(requested["name"], requested["version"])
        if found is None:
            raise Http404("The schema registry does not have this subject and version.")
        return Response(DETAIL(found).data)


class SchemaRegisterView(InputMixin):
    @extend_schema(operation_id="schema_register", request=SchemaRegisterBody, responses={201: REGISTERED})
    def post(self, request: Request) -> Response:
        """Register a schema as the next version of a subject. A schema that the subject has already gets no new version."""
        v = self.body(SchemaRegisterBody)
        made = services.register_schema(v["subject"], SchemaBody.schema(v), actor=self.actor, comment=v["comment"])
        return Response(REGISTERED(made).data, status=201)


class SchemaDeleteView(InputMixin):
    @extend_schema(operation_id="schema_delete", request=SchemaDeleteBody, responses={204: None})
    def post(self, request: Request) -> Response:
        """Delete a version or a subject softly: consumers still read records by the IDs of the schemas."""
        v = self.body(SchemaDeleteBody)
        if v["version"] is None:
            services.delete_subject(v["name"], actor=self.actor, comment=v["comment"])
        else:
            services.delete_version(v["name"], v["version"], actor=self.actor, comment=v["comment"])
        return Response(status=204)


class SchemaCheckView(InputMixin):
    @extend_schema(operation_id="schema_check", request=SchemaBody, responses={200: CHECKED})
    def post(self, request: Request) -> Response:
        """Check whether a subject would accept a schema, by its compatibility level. Changes nothing."""
        v = self.body(SchemaBody)
        return Response(CHECKED(services.check_schema(v["subject"], SchemaBody.schema(v))).data)


class SchemaDifferenceView(InputMixin):
    @extend_schema(
        operation_id="schema_difference_retrieve", parameters=[SchemaDifferenceQuery], responses={200: DIFFERENCE}
    )
    def get(self, request: Request) -> Response:
        """The difference between two versions of a subject, as lines of a unified difference."""
        requested = self.query(SchemaDifferenceQuery)
        found = selectors.difference(requested["name"], requested["version"], requested["other"])
        if found is None:
            raise Http404("The schema registry does not have this subject and these versions.")
        return Response(DIFFERENCE(found).data)
