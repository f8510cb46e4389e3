"""Django's settings. Law: values and the environment only; what depends on the house comes from `house.py`.

Environment: WEIR_DATA_DIR, WEIR_DATABASE_URL (PostgreSQL), CELERY_BROKER_URL and CHANNELS_REDIS_URL (production), WEIR_DEBUG,
WEIR_ALLOWED_HOSTS (comma-separated), WEIR_KAFKA_CONFIG (a client.properties: how to come in by a
secured listener), WEIR_KAFKA_LISTENER (its name, where several have one protocol), WEIR_ZOOKEEPER_CONFIG (zookeeper.ssl.*, zookeeper.sasl.jaas.config),
WEIR_SPARK_NICE (of Spark's drivers, 10), WEIR_OBSERVER (`off`: `manage.py observe` runs it elsewhere), WEIR_SECOND_PERSON (`off`: who proposes to
override a safety refusal may approve it himself, for a house with one operator).
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from controlplane.site.house import read_house

BASE_DIR = Path(__file__).resolve().parents[2]
HOUSE = read_house()
DATA_DIR = HOUSE.data_dir
SPARK_NICE = int(os.environ.get("WEIR_SPARK_NICE", "10"))
"""Of Spark's drivers: they must not slow the brokers that share their machine. 0 where a machine is theirs, or so busy that they would starve."""
LAKE_DIR = Path(os.environ.get("WEIR_LAKE_DIR", DATA_DIR / "lake"))

RECOVERY_BY_ITSELF = os.environ.get("WEIR_RECOVERY", "by hand") == "by itself"
"""Damaged copies that brokers tell of are thrown away and fetched anew without anybody asking, where another replica is in sync."""

DEBUG = os.environ.get("WEIR_DEBUG", "") == "1"
# Before `up` has written a secret (tests, `makemigrations`) a key derived from the folder will do: nobody can log in yet.
SECRET_KEY = HOUSE.secret_key or hashlib.sha256(f"weir {DATA_DIR}".encode()).hexdigest()
ALLOWED_HOSTS = [
    h for h in os.environ.get("WEIR_ALLOWED_HOSTS", "127.0.0.1,localhost,[::1],testserver").split(",") if h
]
CSRF_TRUSTED_ORIGINS = [o for o in os.environ.get("WEIR_TRUSTED_ORIGINS", "").split(",") if o]

CONSOLE_INSTALLED = importlib.util.find_spec("console.urls") is not None

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "rest_framework.authtoken",
    "drf_spectacular",
    "channels",
    "controlplane",
    *(["console"] if importlib.util.find_spec("console") is not None and CONSOLE_INSTALLED else []),
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "controlplane.site.urls"
ASGI_APPLICATION = "controlplane.site.asgi.application"

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]


def database(url: str | None) -> dict[str, Any]:
    """Django's database settings. SQLite in the house's folder, or PostgreSQL by URL (postgres://user:password@host:port/name).

    SQLite: WAL lets pages read while the observer writes; IMMEDIATE takes the write lock at BEGIN, where the 20 s time-out
    applies (a later upgrade of a read transaction fails at once with "database is locked").
    """
    if not url:
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": DATA_DIR / "db.sqlite3",
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA temp_store=MEMORY; "
                "PRAGMA cache_size=-16000;",
            },
        }
    parts = urlsplit(url)
    if parts.scheme not in ("postgres", "postgresql"):
        raise ImproperlyConfigured(
            f"WEIR_DATABASE_URL starts with {parts.scheme!r}; use postgres://user:password@host:port/name, or leave it empty for SQLite in the house's folder"
        )
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": 60,
    }


DATABASES = {"default": database(os.environ.get("WEIR_DATABASE_URL"))}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
]
# A plan of 100,000 partitions, pasted: 7 MB of Kafka's JSON, twice that as a form. (Files are not counted, nor is what REST reads.)
DATA_UPLOAD_MAX_MEMORY_SIZE = 32 * 1024 * 1024
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = True
LANGUAGES = [("en", "English"), ("zh-hans", "中文")]
LOCALE_PATHS = [BASE_DIR / "locale"]

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"] if (BASE_DIR / "static").is_dir() else []
# Served straight from the source folders: `up` needs no collectstatic. Production may set WEIR_STATIC_MANIFEST=1 and collect.
STATIC_MANIFEST = os.environ.get("WEIR_STATIC_MANIFEST", "") == "1"
STATIC_ROOT = DATA_DIR / "staticfiles" if STATIC_MANIFEST else None
WHITENOISE_USE_FINDERS = not STATIC_MANIFEST
WHITENOISE_AUTOREFRESH = DEBUG
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if STATIC_MANIFEST
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "rest_framework.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_SCHEMA_CLASS": "controlplane.api.doors.Schema",
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "EXCEPTION_HANDLER": "controlplane.api.errors.handle",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Weir",
    "DESCRIPTION": "What the operator can see and do. Reads never wait for a broker; every figure carries its age.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
}

CHANNEL_LAYERS: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "channels.layers.InMemoryChannelLayer", "CONFIG": {"capacity": 1000}}
}
if os.environ.get("CHANNELS_REDIS_URL"):
    CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_redis.core.RedisChannelLayer",
            "CONFIG": {"hosts": [os.environ["CHANNELS_REDIS_URL"]]},
        }
    }

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["stderr"], "level": os.environ.get("WEIR_LOG_LEVEL", "INFO")},
    # One look a second says nothing new each time; what goes wrong still comes through.
    "loggers": {
        "celery.beat": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},
        "kombu.connection": {"level": "ERROR"},
        "django.request": {"level": "ERROR"},
    },
}

OBSERVER_ENABLED = os.environ.get("WEIR_OBSERVER", "on") != "off"

SECOND_PERSON = os.environ.get("WEIR_SECOND_PERSON", "required") != "off"
