"""The command `weir`: without the packages of the control plane, and its decision between the command line over the REST API and Django."""

from __future__ import annotations

import subprocess
import sys

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
    check = "import sys, weir.__main__ as m; assert not m.runs_rest_command('up'); print({'click', 'requests'} & {*sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "set()"
