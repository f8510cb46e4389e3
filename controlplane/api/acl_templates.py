"""ACL templates: the list, and creation of the ACLs of one."""

from __future__ import annotations

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import InputMixin
from controlplane.domain.access import AclPattern
from controlplane.domain.acl_templates import TEMPLATES, AclTemplate, TemplateField, TemplateInfo
from controlplane.services import acl_templates as services

TEMPLATE = serializers.shape(TemplateInfo)
TEMPLATE_ACL = serializers.shape(services.TemplateAcl)


class AclTemplateApply(drf.Serializer[object]):
    """Values of a template, and the principal that gets its ACLs."""

    principal = drf.CharField(help_text="With the type: User:alice.")
    host = drf.CharField(default="*")
    topic = drf.CharField(default="", allow_blank=True)
    group = drf.CharField(default="", allow_blank=True)
    transactional_id = drf.CharField(default="", allow_blank=True)
    application_id = drf.CharField(default="", allow_blank=True)
    name_prefix = drf.CharField(default="", allow_blank=True, help_text="Beginning of names, for example checkout.")
    pattern_type = drf.ChoiceField(
        choices=[(p.value, p.value) for p in AclPattern],
        default=AclPattern.LITERAL.value,
        help_text="Pattern type of the ACLs for the given names.",
    )
    dry = drf.BooleanField(default=False, help_text="Only show the ACLs.")
    comment = drf.CharField(default="", allow_blank=True)


class AclTemplatesView(InputMixin):
    @extend_schema(operation_id="acl_templates_list", responses={200: TEMPLATE(many=True)})
    def get(self, request: Request) -> Response:
        """List the ACL templates with the values that each needs."""
        return Response(TEMPLATE(list(TEMPLATES.values()), many=True).data)


class AclTemplateApplyView(InputMixin):
    @extend_schema(request=AclTemplateApply, responses={200: TEMPLATE_ACL(many=True)})
    def post(self, request: Request, template: str) -> Response:
        """Create the ACLs of a template that do not exist yet, all or none. `exists`: which existed before."""
        if template not in set(AclTemplate):
            raise Http404(f"There is no ACL template {template!r}; use one of {', '.join(AclTemplate)}.")
        given = self.body(AclTemplateApply)
        values = {field: given.pop(field.value) for field in TemplateField}
        dry, comment = given.pop("dry"), given.pop("comment")
        given["pattern_type"] = AclPattern(given["pattern_type"])
        chosen = AclTemplate(template)
        found = (
            services.preview_template(chosen, values, **given)
            if dry
            else services.apply_template(chosen, values, **given, actor=self.actor, comment=comment)
        )
        return Response(TEMPLATE_ACL(found, many=True).data)
