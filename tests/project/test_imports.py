"""Each module of the tests, benchmarks and Makefile verbs can be imported. `make check` does not see a helper that was renamed in one of them, and no
test imports the modules of long verbs. The modules with tests are left out: pytest imports them to collect their tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("tests", "bench")
NOT_IMPORTED = (
    "tests.project.reworded",  # a pytest plug-in that must be the first import
    "bench.console_server",  # reads settings that `bench.console` gives it
)

IMPORT_ALL = f"""
import importlib, pkgutil, sys
import django
django.setup()
failed = []
for package in {PACKAGES}:
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        last = module.name.rpartition(".")[2]
        if module.name in {NOT_IMPORTED} or last == "__main__" or last.startswith("test_"):
            continue
        try:
            importlib.import_module(module.name)
        except (ImportError, AttributeError) as e:
            failed.append(f"{{module.name}}: {{e}}")
print("\\n".join(failed))
"""


def test_every_module_of_the_tests_and_benchmarks_can_be_imported() -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "weir.settings"}
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not done.stdout.strip(), done.stdout
