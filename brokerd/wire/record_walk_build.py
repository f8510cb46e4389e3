"""`python -m brokerd.wire.record_walk_build`: compile `record_walk` with Cython for the brokers of this directory and Python (decision 044).

Needs Cython and a C compiler (`pip install cython setuptools`, `apt install gcc`). Brokers need neither. A failed build replaces nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

from brokerd.wire import record_walk, record_walks

SETUP = """\
from Cython.Build import cythonize
from setuptools import Extension, setup

directives = {{"language_level": 3, "annotation_typing": False, "boundscheck": True, "wraparound": False}}
module = Extension("{name}", ["{name}.py"], extra_compile_args=["-O3"])
setup(name="record-walk", ext_modules=cythonize(module, compiler_directives=directives))
"""


def build(into: Path) -> Path:
    """Returns the path of the compiled module in `into`. Raises CalledProcessError with the output of the tools."""
    name = record_walks.COMPILED_NAME
    source = Path(record_walk.__file__)
    with tempfile.TemporaryDirectory(prefix="record-walk-") as folder:
        copy = Path(folder, f"{name}.py")
        copy.write_text(f'{source.read_text()}\nSOURCE_DIGEST: Final = "{record_walks.source_digest()}"\n')
        shutil.copy(source.with_suffix(".pxd"), copy.with_suffix(".pxd"))
        Path(folder, "setup.py").write_text(SETUP.format(name=name))
        subprocess.run(
            [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        )
        (made,) = Path(folder).glob(f"{name}.*.so")
        target = into / made.name
        # Replaced by a rename, because a running broker has mapped the old file.
        shutil.copy(made, target.with_suffix(".new"))
        target.with_suffix(".new").rename(target)
    return target


def has_compiler() -> bool:
    """Whether the C compiler is installed that this Python's extension modules are built with (`CC` names another)."""
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shutil.which(command.split()[0]) is not None


def main(arguments: Sequence[str]) -> int:
    """`--optional`, for `make setup`: a build that is not possible is reported, and is no error."""
    optional = "--optional" in arguments
    if optional and not has_compiler():
        print("no C compiler: brokers validate records in Python (apt install gcc; make record-walk)", file=sys.stderr)
        return 0
    try:
        path = build(Path(record_walk.__file__).parent)
    except (subprocess.CalledProcessError, OSError) as e:
        output = f"\n{e.stdout}{e.stderr}" if isinstance(e, subprocess.CalledProcessError) else f" {e}"
        print(f"the record walk was not compiled; brokers use the Python source:{output}", file=sys.stderr)
        return 0 if optional else 1
    if not optional:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
