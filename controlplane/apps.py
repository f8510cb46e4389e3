"""The Django app `controlplane`. Law: starts nothing; threads and clients are started by the process that needs them."""

from django.apps import AppConfig


class ControlplaneConfig(AppConfig):
    name = "controlplane"
    label = "controlplane"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = "Weir control plane"
