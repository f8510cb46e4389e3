"""Environment variables: types, limits, errors, and their documentation."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from tests.cluster.local import ROOT
from tests.unit.settings_page import PAGE, environment
from weir.variables import INTERNAL, WeirSettings, read, variables

DEFAULTS = {"bootstrap": "127.0.0.1:19092", "lake_dir": "/data/lake"}
HISTORY = {"CHANGELOG.md"}
"""Documents that name variables of the past."""
READERS = {"weir/settings.py", "weir/__main__.py", "controlplane/management/commands/ensure_operator.py"}
"""They need a variable before or without Django's settings: the data directory of `--data-dir`, a password for one command."""


def settings(**environ: str) -> WeirSettings:
    return read(environ, DEFAULTS)


def test_without_variables_every_setting_has_its_default() -> None:
    chosen = settings()
    assert chosen.data_dir == Path("data").resolve()
    assert (chosen.bootstrap, chosen.lake_dir) == ("127.0.0.1:19092", Path("/data/lake"))
    assert (chosen.spark_nice, chosen.log_level, chosen.database_url) == (10, "INFO", "")
    assert (chosen.monitor, chosen.beat, chosen.second_person) == (True, True, True)
    assert (chosen.auto_recovery, chosen.debug, chosen.cluster_colour) == (False, False, "none")
    assert (chosen.kafka_config, chosen.zookeeper_config) == (None, None)
    assert chosen.allowed_hosts == ("127.0.0.1", "localhost", "[::1]", "testserver")
    assert settings(**{v.name: "" for v in variables().values()}) == chosen, "an empty variable is not set"


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("WEIR_SPARK_NICE", "0", "spark_nice", 0),
        ("WEIR_SPARK_NICE", "19", "spark_nice", 19),
        ("WEIR_AUTO_RECOVERY", "1", "auto_recovery", True),
        ("WEIR_AUTO_RECOVERY", "Yes", "auto_recovery", True),
        ("WEIR_MONITOR", "off", "monitor", False),
        ("WEIR_SECOND_PERSON", "off", "second_person", False),
        ("WEIR_LOG_LEVEL", "warning", "log_level", "WARNING"),
        ("WEIR_ALLOWED_HOSTS", "a.example, b.example,", "allowed_hosts", ("a.example", "b.example")),
        ("WEIR_TRUSTED_ORIGINS", "https://a.example:8443", "trusted_origins", ("https://a.example:8443",)),
        ("WEIR_BOOTSTRAP", "a:1,[::1]:9092", "bootstrap", "a:1,[::1]:9092"),
        ("WEIR_KAFKA_CONFIG", "/etc/weir/client.properties", "kafka_config", Path("/etc/weir/client.properties")),
        ("WEIR_KAFKA_LISTENER", "brokers", "kafka_listener", "BROKERS"),
        ("WEIR_DATABASE_URL", "postgres://u:p@h:5433/weir", "database_url", "postgres://u:p@h:5433/weir"),
        ("CELERY_BROKER_URL", "redis://h", "celery_broker_url", "redis://h"),
    ],
)
def test_a_value_is_parsed(name: str, text: str, field: str, value: Any) -> None:
    assert getattr(settings(**{name: text}), field) == value


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("WEIR_SPARK_NICE", "20", "WEIR_SPARK_NICE is '20'; allowed: 0 to 19 (nice value)"),
        ("WEIR_SPARK_NICE", "ten", "WEIR_SPARK_NICE is 'ten'; allowed: 0 to 19 (nice value)"),
        ("WEIR_AUTO_RECOVERY", "maybe", "allowed: on, 1, true, yes, off, 0, false, no"),
        ("WEIR_SECOND_PERSON", "0", "WEIR_SECOND_PERSON is '0'; allowed: required, off"),
        ("WEIR_LOG_LEVEL", "loud", "allowed: DEBUG, INFO, WARNING, ERROR, CRITICAL"),
        ("WEIR_TRUSTED_ORIGINS", "a.example", "allowed: https://host[:port], separated by commas"),
        ("WEIR_BOOTSTRAP", "a:1,b", "WEIR_BOOTSTRAP is 'a:1,b'; allowed: host:port, separated by commas"),
    ],
)
def test_an_invalid_value_is_rejected_with_the_allowed_values(name: str, text: str, error: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=re.escape(error)):
        settings(**{name: text})


def test_every_invalid_variable_has_a_line_and_a_secret_is_not_shown() -> None:
    with pytest.raises(ImproperlyConfigured) as raised:
        settings(WEIR_SPARK_NICE="x", WEIR_DATABASE_URL="mysql://u:hunter2@h/x")
    first, second = str(raised.value).splitlines()
    assert first.startswith("WEIR_DATABASE_URL is a value that is not shown here; allowed: postgres://user:password@")
    assert second.startswith("WEIR_SPARK_NICE is 'x'")
    chosen = settings(WEIR_DATABASE_URL="postgres://u:hunter2@h/x", WEIR_SECRET_KEY="hunter3")
    assert "hunter" not in repr(chosen)


def test_a_command_ends_with_the_error(tmp_path: Path) -> None:
    environ = {**os.environ, "WEIR_DATA_DIR": str(tmp_path), "WEIR_SPARK_NICE": "x"}
    command = [sys.executable, "-m", "weir", "status"]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "error: WEIR_SPARK_NICE is 'x'; allowed: 0 to 19 (nice value)\n"


def test_the_settings_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings().spark_nice = 1  # type: ignore[misc]


def test_the_documentation_matches() -> None:
    assert PAGE.read_text().endswith(environment()), "generate the page again: python -m tests.unit.settings_page"


@pytest.fixture(scope="module")
def tracked_texts() -> dict[str, str]:
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    texts = {}
    for name in names:
        try:
            texts[name] = (ROOT / name).read_text()
        except (FileNotFoundError, UnicodeDecodeError):
            continue
    return texts


def test_every_variable_that_a_file_names_is_defined(tracked_texts: dict[str, str]) -> None:
    known = {v.name for v in variables().values()} | set(INTERNAL)
    named = {
        n: p for p, text in tracked_texts.items() if p not in HISTORY for n in re.findall(r"\bWEIR_[A-Z][A-Z_]*", text)
    }
    assert len(named) > 15
    assert {n: p for n, p in named.items() if n not in known} == {}


def test_product_code_reads_the_variables_from_the_settings(tracked_texts: dict[str, str]) -> None:
    product = {
        p: t for p, t in tracked_texts.items() if p.endswith(".py") and re.match("(weir|console|controlplane)/", p)
    }
    names = r"WEIR_\w+|CELERY_BROKER_URL|CHANNELS_REDIS_URL"
    reads = rf"(environ\.get\(|environ\[|getenv\()\s*\"({names})\"(?!\]\s*=)"
    assert {p for p, text in product.items() if re.search(reads, text)} <= READERS
    assert [p for p, text in product.items() if re.search(r"getattr\(settings\b", text)] == []
