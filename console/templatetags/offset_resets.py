"""Template filters of the pages about offset resets."""

from __future__ import annotations

from django import template
from django.urls import reverse
from django.utils.http import urlencode

from console import reset_labels

register = template.Library()

register.filter("reset_state", reset_labels.reset_state)
register.simple_tag(reset_labels.reset_span, name="reset_span")
register.simple_tag(reset_labels.reset_value, name="reset_value")


@register.filter
def reset_target(target: str) -> str:
    return reset_labels.TARGETS[target]


@register.filter
def reset_problem(problem: str) -> str:
    return reset_labels.PROBLEMS[problem]


@register.filter
def reset_limit(limited: str) -> str:
    return reset_labels.LIMITS.get(limited, "")


@register.simple_tag
def reset_address(group_id: str) -> str:
    return f"{reverse('offset-reset-new')}?{urlencode({'group': group_id})}"


@register.simple_tag
def member_remove_address(group_id: str, member_id: str) -> str:
    return f"{reverse('member-remove')}?{urlencode({'group': group_id, 'member': member_id})}"
