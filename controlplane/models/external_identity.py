"""Users who log in through a directory. Only `services.external_logins` writes them."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from controlplane.domain.external_login import LoginSource
from controlplane.models.choices import choices


class ExternalIdentity(models.Model):
    """`issuer` and `subject` are the account at the directory; a user has at most one. `seen_at`: the last login or silent renewal; null: the
    last login was rejected because the user is in no group that may log in."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="external_identity", primary_key=True
    )
    source = models.CharField(max_length=10, choices=choices(LoginSource))
    issuer = models.CharField(max_length=255)
    subject = models.CharField(max_length=255)
    seen_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["source", "issuer", "subject"], name="one_user_per_external_identity")
        ]

    def __str__(self) -> str:
        return f"{self.subject} of {self.issuer}"
