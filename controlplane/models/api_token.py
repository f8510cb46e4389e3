"""API tokens. Only the hash of a token is stored; its text is in the response that creates it, and nowhere else."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from controlplane.domain.token_scopes import TokenScope


class ApiToken(models.Model):
    """`prefix`: the first characters of the token, to recognise it. `last_used_at` is written at most once a minute."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    scope = models.CharField(max_length=10, choices=[(s.value, s.value) for s in TokenScope])
    prefix = models.CharField(max_length=16, help_text="First characters of the token.")
    digest = models.CharField(max_length=64, unique=True, help_text="SHA-256 of the token, hexadecimal.")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, help_text="Null: no end.")
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="one_token_per_user_and_name")]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix})"
