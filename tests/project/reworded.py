"""A pytest plugin: the product's messages with other words. Load it with `-p tests.project.reworded`, before the product is imported.

An import hook changes the modules in PACKAGES (`reworded_source`). The failures are written to the file REWORDED_FAILURES, one JSON list
[test, file, line of the test, text] per line, and the numbers of changed literals and of tests to REWORDED_COUNTS.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from tests.project.reworded_source import compile_reworded, reworded

TESTS = Path(__file__).parents[1]
PACKAGES = (
    "controlplane.domain",
    "controlplane.controller",
    "controlplane.services",
    "brokerd.cluster",
    "brokerd.coordinator",
    "brokerd.replication",
    "brokerd.apis",
    "brokerd.authz",
)


class Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return compile_reworded(self.get_data(path), path)


class Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not any(fullname == p or fullname.startswith(f"{p}.") for p in PACKAGES):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
            spec.loader = Loader(fullname, spec.origin)
        return spec


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    target = os.environ.get("REWORDED_FAILURES")
    if target and report.failed and call.excinfo is not None:
        frame = next(f for f in reversed(call.excinfo.traceback) if TESTS in Path(f.path).parents)
        with Path(target).open("a") as out:
            out.write(json.dumps([item.nodeid, str(frame.path), frame.lineno, str(call.excinfo.value)[:300]]) + "\n")
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    if target := os.environ.get("REWORDED_COUNTS"):
        Path(target).write_text(json.dumps({"literals": len(reworded), "tests": session.testscollected}))


assert not any(m == p or m.startswith(f"{p}.") for m in sys.modules for p in PACKAGES), (
    "the product is imported already"
)
sys.meta_path.insert(0, Finder())
