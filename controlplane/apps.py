"""The Django app `controlplane`. Starts no thread and no client: the process that needs one starts it."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from controlplane.db import postgres


class ControlplaneConfig(AppConfig):
    name = "controlplane"
    label = "controlplane"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = "Weir control plane"

    def ready(self) -> None:
        postgres.install()
        post_migrate.connect(_protect, sender=self)


def _protect(using: str, **kwargs: object) -> None:
    from controlplane.services import audit

    audit.protect(using)
