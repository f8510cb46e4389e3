"""`python -m brokerd.wire.compile`: compile `record_walk`, `record_decode` and `key_walk` with Cython for the brokers of this directory and Python (decision 044).

Needs Cython and a C compiler (`pip install cython setuptools`, `apt install gcc`). Brokers need neither. A failed build replaces nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from brokerd.wire import key_walk, record_decode, record_walk
from brokerd.wire.compiled import compiled_name, source_digest, source_path

SOURCES = (record_walk, record_decode, key_walk)
SETUP = """\
from Cython.Build import cythonize
from setuptools import Extension, setup

directives = {{"language_level": 3, "annotation_typing": False, "boundscheck": True, "wraparound": False}}
modules = [Extension(name, [name + ".py"], extra_compile_args=["-O3"]) for name in {names}]
setup(name="compiled", ext_modules=cythonize(modules, compiler_directives=directives))
"""


def build(into: Path) -> list[Path]:
    """Returns the paths of the compiled modules in `into`. Raises CalledProcessError with the output of the tools."""
    with tempfile.TemporaryDirectory(prefix="weir-compile-") as folder:
        for module in SOURCES:
            source = source_path(module)
            copy = Path(folder, f"{compiled_name(module)}.py")
            copy.write_text(f'{source.read_text()}\nSOURCE_DIGEST: Final = "{source_digest(module)}"\n')
            shutil.copy(source.with_suffix(".pxd"), copy.with_suffix(".pxd"))
        Path(folder, "setup.py").write_text(SETUP.format(names=[compiled_name(module) for module in SOURCES]))
        subprocess.run(
            [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        )
        made = sorted(Path(folder).glob("_*.so"))
        for path in made:
            target = into / path.name
            # Replaced by a rename, because a running broker has mapped the old file.
            shutil.copy(path, target.with_suffix(".new"))
            target.with_suffix(".new").rename(target)
    return [into / path.name for path in made]


def has_compiler() -> bool:
    """Return whether the C compiler is installed that this Python's extension modules are built with (`CC` names another)."""
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shutil.which(command.split()[0]) is not None


def report_build(arguments: Sequence[str], build: Callable[[], Iterable[Path]]) -> int:
    """The exit status of a command that builds compiled modules. With `--optional`, as in `make setup`, a build that is not possible is reported and is not
    an error."""
    optional = "--optional" in arguments
    if optional and not has_compiler():
        print("no C compiler: brokers use the Python sources (apt install gcc; make compile)", file=sys.stderr)
        return 0
    try:
        paths = build()
    except (subprocess.CalledProcessError, OSError) as e:
        output = f"\n{e.stdout}{e.stderr}" if isinstance(e, subprocess.CalledProcessError) else f" {e}"
        print(f"nothing was compiled; brokers use the Python sources:{output}", file=sys.stderr)
        return 0 if optional else 1
    if not optional:
        print(*paths, sep="\n")
    return 0


def main(arguments: Sequence[str]) -> int:
    return report_build(arguments, lambda: build(source_path(record_walk).parent))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
