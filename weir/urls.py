"""URLs of the web process: the console at the root, the REST API under /api/v1/, the read-only admin under /admin/."""

from django.urls import include, path

from console.views import api_reference
from weir.admin import site

urlpatterns = [
    path("admin/", site.urls),
    path("api/v1/docs/", api_reference.index, name="api-reference"),
    path("api/v1/docs/<str:name>/", api_reference.noun, name="api-reference-noun"),
    path("api/v1/", include("controlplane.api.urls")),
    path("", include("console.urls")),
]
handler500 = "console.views.shell.server_error"
