"""Django's settings. `WEIR` has the values of the environment variables, `LOCAL_CLUSTER` those of local-cluster.json.

Does not contain: names, defaults and limits of the environment variables (`weir.variables`; the table is in docs/settings.md).
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from weir.authentication import backends
from weir.clusters import read_consoles
from weir.cookies import cookie_mark
from weir.devcluster import read_local_cluster
from weir.variables import WeirSettings, read, variables

BASE_DIR = Path(__file__).resolve().parents[1]
PAGES_DIR = BASE_DIR if (BASE_DIR / "templates").is_dir() else BASE_DIR / "weir"
"""The parent of `templates` and `static`: the root of a checkout, the package `weir` in an installed wheel (setup.py)."""
RUNBOOKS_DIR = PAGES_DIR / "docs" / "runbooks" if PAGES_DIR == BASE_DIR else PAGES_DIR / "runbooks"
"""docs/runbooks of a checkout, or its copy in an installed wheel."""
LOCAL_CLUSTER = read_local_cluster(Path(os.environ.get("WEIR_DATA_DIR") or variables()["data_dir"].default).resolve())
WEIR: WeirSettings = read(os.environ, LOCAL_CLUSTER.defaults)
"""The environment variables. Product code reads them here only."""

DEBUG = WEIR.debug
SECRET_KEY_GIVEN = bool(WEIR.secret_key)
# Commands that sign nothing (`up` in a new data directory, `makemigrations`) get a random key. Web processes reject it (middleware.Guard).
SECRET_KEY = WEIR.secret_key or secrets.token_urlsafe(48)
ALLOWED_HOSTS = list(WEIR.allowed_hosts)
CSRF_TRUSTED_ORIGINS = list(WEIR.trusted_origins)

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "rest_framework.authtoken",
    "drf_spectacular",
    "django_filters",
    "channels",
    "django_cotton.apps.SimpleAppConfig",
    "controlplane",
    "console",
]

MIDDLEWARE = [
    "weir.middleware.Guard",
    "django.middleware.security.SecurityMiddleware",
    "weir.static_files.HashedFiles",
    "weir.static_files.Compression",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "weir.languages.Language",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "weir.middleware.ViewByRole",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "weir.urls"
ASGI_APPLICATION = "weir.asgi.application"

TEMPLATE_LOADERS = [
    "django_cotton.cotton_loader.Loader",
    "django.template.loaders.filesystem.Loader",
    "django.template.loaders.app_directories.Loader",
]
TEMPLATES: list[dict[str, object]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [PAGES_DIR / "templates"],
        "OPTIONS": {
            # django-cotton compiles <c-name> to the component templates/cotton/name.html (decision 047).
            "loaders": [("django.template.loaders.cached.Loader", TEMPLATE_LOADERS)],
            "builtins": ["django_cotton.templatetags.cotton", "django.templatetags.i18n"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]


DATABASE_OPTIONS = ("sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs")
"""Parameters of libpq that the query of a database URL may have."""
DATABASE_WAITS = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""Options of libpq in seconds; `tcp_user_timeout` in milliseconds. A machine that leaves the network closes no connection, and without these limits the
kernel would wait for many minutes."""


def database(url: str) -> dict[str, object]:
    """Django's database settings: SQLite in the data directory, or PostgreSQL by URL (postgres://user:password@host:port/name?sslmode=verify-full).
    Several hosts, separated by commas, are tried in order. Raises ImproperlyConfigured for an unknown parameter.

    SQLite: WAL lets pages read while the monitor writes. IMMEDIATE takes the write lock at BEGIN, where the 20 s time-out
    applies (a later upgrade of a read transaction fails immediately with "database is locked").
    """
    if not url:
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": WEIR.data_dir / "db.sqlite3",
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA temp_store=MEMORY; "
                "PRAGMA cache_size=-16000;",
            },
        }
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    if unknown := sorted(set(options) - set(DATABASE_OPTIONS)):
        raise ImproperlyConfigured(
            f"WEIR_DATABASE_URL has the unknown parameter {unknown[0]}; allowed: {', '.join(DATABASE_OPTIONS)}"
        )
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {**DATABASE_WAITS, **options},
    }


DATABASES = {"default": database(WEIR.database_url)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
]
# A pasted plan of 100,000 partitions is 7 MB of Kafka's JSON, twice that as a form. (The limit ignores uploaded files and REST bodies.)
DATA_UPLOAD_MAX_MEMORY_SIZE = 32 * 1024 * 1024
OTHER_CONSOLES = read_consoles(WEIR.clusters_file)
"""Consoles of other clusters, with their tokens."""
AUTHENTICATION_BACKENDS = backends(WEIR)
if WEIR.oidc_issuer or WEIR.ldap_url:
    MIDDLEWARE.append("console.session_renewal.SessionRenewal")
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"


def mail_server(url: str) -> dict[str, object]:
    """Django's settings of a mail server, as keywords, from WEIR_SMTP_URL. The standard port of the scheme is the default."""
    parts = urlsplit(url)
    ports = {"smtps": 465, "smtp+starttls": 587}
    return {
        "host": parts.hostname or "localhost",
        "port": parts.port or ports.get(parts.scheme, 25),
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "use_ssl": parts.scheme == "smtps",
        "use_tls": parts.scheme == "smtp+starttls",
    }


_MAIL = mail_server(WEIR.smtp_url)
EMAIL_HOST, EMAIL_PORT = _MAIL["host"], _MAIL["port"]
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _MAIL["user"], _MAIL["password"]
EMAIL_USE_SSL, EMAIL_USE_TLS = _MAIL["use_ssl"], _MAIL["use_tls"]
EMAIL_TIMEOUT = 5  # seconds of each step; see controlplane.clients.notifications
DEFAULT_FROM_EMAIL = WEIR.mail_from

# Consoles on one host name with different ports would share cookies of the same name: a login at one would end the session at the other.
SESSION_COOKIE_NAME = f"weir_session_{cookie_mark(SECRET_KEY)}"
CSRF_COOKIE_NAME = f"weir_csrf_{cookie_mark(SECRET_KEY)}"
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
# The console behind a proxy that ends TLS: browsers must not send its cookies in clear text.
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = LANGUAGE_COOKIE_SECURE = WEIR.console_url.startswith("https://")

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
"""Languages of the console. Texts in the code are English; locale/ has the others (docs/how-to/add-a-text.md)."""
LANGUAGE_COOKIE_NAME = "weir_language"
LANGUAGE_COOKIE_AGE = 365 * 86400
LANGUAGE_COOKIE_HTTPONLY = True
LANGUAGE_COOKIE_SAMESITE = "Lax"
LOCALE_PATHS = [PAGES_DIR / "locale"]
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = True

STATIC_URL = "static/"
STATICFILES_DIRS = [PAGES_DIR / "static"]
WHITENOISE_USE_FINDERS = True
"""Names without a hash, as in Django's own style sheets, are read from the source directories too: no collectstatic."""
WHITENOISE_AUTOREFRESH = DEBUG
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "weir.static_files.HashedStorage"},
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "controlplane.api.authentication.ApiTokenAuthentication",
        "rest_framework.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["controlplane.api.permissions.IsOperatorOrReadOnly"],
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_PAGINATION_CLASS": "controlplane.api.pagination.RowPagination",
    "DEFAULT_SCHEMA_CLASS": "controlplane.api.schema.WeirSchema",
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "EXCEPTION_HANDLER": "controlplane.api.errors.handle",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Weir",
    "DESCRIPTION": "What the operator can see and do. Reads wait for brokers only where brokers alone have the values; every value carries its age.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,  # the labels of the choices are their values
    "ENUM_NAME_OVERRIDES": {
        "InputFormatEnum": "controlplane.api.produce.FORMATS",
        "InputFormatOrSchemaEnum": "controlplane.api.produce.PRODUCE_FORMATS",
        "ResendTargetEnum": "controlplane.api.dead_letters.TARGETS",
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "controlplane.api.schema.reject_unknown_fields",
        "controlplane.api.schema.add_errors",
    ],
}

CHANNELS_REDIS_WAITS = {"socket_connect_timeout": 3.0, "socket_timeout": 15.0, "socket_keepalive": True}
"""Seconds. A blocking read of channels_redis takes five."""
CHANNEL_LAYERS: dict[str, dict[str, object]] = {
    "default": {"BACKEND": "channels.layers.InMemoryChannelLayer", "CONFIG": {"capacity": 1000}}
}
if WEIR.channels_redis_url:
    CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_redis.core.RedisChannelLayer",
            "CONFIG": {"hosts": [{"address": WEIR.channels_redis_url, **CHANNELS_REDIS_WAITS}]},
        }
    }

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["stderr"], "level": WEIR.log_level},
    # One task per second would fill the log; warnings and errors are still logged.
    "loggers": {
        "celery.beat": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},
        "kombu.connection": {"level": "ERROR"},
        # Each change of the state of a connection; the outcome is logged by the caller.
        "kazoo": {"level": "WARNING"},
        "django.request": {"level": "ERROR"},
    },
}
