"""The front door's addresses. Law: includes only. The console sits at the root, the API under /api/v1/."""

from django.conf import settings
from django.urls import include, path

urlpatterns = [path("api/v1/", include("controlplane.api.urls"))]
if settings.CONSOLE_INSTALLED:
    urlpatterns.append(path("", include("console.urls")))
    handler500 = "console.views.shell.failed"
