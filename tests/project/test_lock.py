"""requirements.lock has what pyproject.toml requires, for each supported Python, with hashes and without the address of a registry."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.cluster.local import ROOT

PYTHONS = ("3.11", "3.12", "3.13")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REWRITE = "run `make lock`"


def locked_requirements(path: Path) -> list[tuple[Requirement, list[str]]]:
    """The pins of a lock file, each with its hashes."""
    blocks = re.split(r"^(?=[a-z0-9])", path.read_text(), flags=re.M)
    return [
        (Requirement(b.split(" \\\n")[0]), re.findall(r"--hash=(sha256:[0-9a-f]{64})\b", b))
        for b in blocks
        if b.strip()
    ]


LOCKED = locked_requirements(ROOT / "requirements.lock")


def versions(python: str) -> dict[str, Version]:
    """Name and version of each package that pip installs from the lock file on Linux with this Python."""
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.9",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "sys_platform": "linux",
    }
    pins = [pin for pin, _ in LOCKED if pin.marker is None or pin.marker.evaluate(environment)]
    found = {canonicalize_name(pin.name): Version(str(pin.specifier).removeprefix("==")) for pin in pins}
    assert len(found) == len(pins), f"a package is locked two times for Python {python}"
    return found


def project_requirements() -> list[Requirement]:
    extras = [line for extra in PROJECT["optional-dependencies"].values() for line in extra]
    return [Requirement(line) for line in [*PROJECT["dependencies"], *extras]]


@pytest.mark.parametrize("python", PYTHONS)
def test_lock_file_satisfies_pyproject(python: str) -> None:
    have = versions(python)
    wrong = [
        str(r)
        for r in project_requirements()
        if not r.specifier.contains(have.get(canonicalize_name(r.name), Version("0")))
    ]
    assert not wrong, f"requirements.lock does not satisfy {wrong}: {REWRITE}"


def test_lock_file_has_no_direct_dependency_that_pyproject_dropped() -> None:
    """uv writes below each pin which packages require it."""
    blocks = re.split(r"^(?=[a-z0-9])", (ROOT / "requirements.lock").read_text(), flags=re.M)
    direct = {b.split("==")[0] for b in blocks if "weir (pyproject.toml)" in b}
    names = {canonicalize_name(r.name) for r in project_requirements()}
    assert {canonicalize_name(name) for name in direct} == names, REWRITE


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-java.lock"])
def test_every_pin_has_hashes_and_no_registry(name: str) -> None:
    text = (ROOT / name).read_text()
    pins = locked_requirements(ROOT / name)
    assert pins and all(len(pin.specifier) == 1 and str(pin.specifier).startswith("==") for pin, _ in pins)
    assert [str(pin) for pin, hashes in pins if not hashes] == []
    assert "://" not in text and not re.search(r"^\s*-{1,2}(?!hash)[a-z]", text, flags=re.M)


def test_supported_pythons_are_one_list() -> None:
    supported = SpecifierSet(PROJECT["requires-python"])
    assert [f"3.{minor}" for minor in range(8, 20) if supported.contains(f"3.{minor}.0")] == list(PYTHONS)
    classifiers = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert tuple(classifiers) == PYTHONS
    script = (ROOT / ".ci" / "find-python").read_text()
    looked_for = re.search(r"^for version in \$\{\*:-([\d. ]+)\};", script, flags=re.M)
    assert looked_for is not None and looked_for[1].split() == sorted(PYTHONS, reverse=True, key=Version)
