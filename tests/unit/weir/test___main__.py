"""The command `weir`: without the packages of the control plane, and its decision between the command line over the REST API and Django."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cluster.local import ROOT

WITHOUT_DJANGO = (
    "import sys; sys.modules['django'] = None; sys.argv = ['weir', 'up']; import weir.__main__ as m; m.main()"
)


def test_a_missing_package_is_named_with_the_command_that_installs_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_DJANGO], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert done.stderr.strip() == (
        "error: django is not installed: pip install 'weir[controlplane,pipeline]' installs what `weir` needs"
    )


def test_a_command_of_django_imports_no_client_of_the_rest_api() -> None:
    """Each process of the control plane starts so."""
    check = "import sys, weir.__main__ as m; assert not m.runs_rest_command(['up']); print({'click', 'requests'} & {*sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "set()"


def weir(*arguments: str) -> str:
    """The standard output of the program."""
    done = subprocess.run(
        [sys.executable, "-m", "weir", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


def test_help_lists_the_commands_of_django_and_of_the_rest_api() -> None:
    commands = weir("help").split()
    assert {"up", "controller", "topics", "moves", "apply", "configure"} <= set(commands)


def test_help_of_a_noun_lists_its_verbs() -> None:
    assert weir("help", "moves").startswith("Usage: weir moves ")
    assert "--data-dir" in weir("help", "up")


def test_the_commands_of_the_local_cluster_use_the_data_directory_of_the_environment(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "weir", "down"],
        cwd=ROOT,
        env={**os.environ, "WEIR_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert f"No local cluster has been started in {tmp_path};" in done.stderr
