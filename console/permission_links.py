"""Addresses of the pages that explain a rejected operation, or allow it."""

from __future__ import annotations

from typing import Protocol

from django.urls import reverse
from django.utils.http import urlencode


class RejectedOperation(Protocol):
    """`operation`, `resource_type`, `resource_name`: empty if unknown."""

    @property
    def principal(self) -> str: ...

    @property
    def host(self) -> str: ...

    @property
    def operation(self) -> str: ...

    @property
    def resource_type(self) -> str: ...

    @property
    def resource_name(self) -> str: ...


def acl_creation(rejected: RejectedOperation) -> str:
    """The form of an ACL that allows this operation."""
    names = ("resource_type", "resource_name", "principal", "host", "operation")
    query = {name: value for name in names if (value := getattr(rejected, name))}
    return f"{reverse('acl-new')}?{urlencode({**query, 'permission': 'allow'})}"


def permission_check(rejected: RejectedOperation) -> str:
    """The check of this operation; without an operation all permissions of the principal."""
    names = ("principal", "host", "resource_type", "resource_name", "operation")
    query = {name: value for name in names if (value := getattr(rejected, name))}
    return f"{reverse('permissions')}?{urlencode(query)}"
