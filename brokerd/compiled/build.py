"""`python -m brokerd.compiled.build`: compile the modules of the request path with mypyc for the brokers of this directory and Python (decision 096).

Needs mypy, setuptools and a C compiler (`pip install mypy setuptools`, `apt install gcc`). Brokers need none of them. A failed build replaces nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from brokerd.compiled.importer import (
    DIGEST_FILE,
    GROUP,
    LIBRARY,
    PACKAGES,
    ROOT,
    compiled_directory,
    is_current,
    module_path,
    source_digest,
)
from brokerd.compiled.modules import MODULES
from brokerd.wire.compile import report_build

SETUP = """\
from concurrent.futures import ThreadPoolExecutor

from mypyc.build import mypycify
from setuptools import setup
from distutils.ccompiler import CCompiler  # that of setuptools


def compile_in_parallel(self, sources, output_dir=None, macros=None, include_dirs=None, debug=0, extra_preargs=None, extra_postargs=None, depends=None):
    _, objects, postargs, options, sources_of = self._setup_compile(output_dir, macros, include_dirs, sources, depends, extra_postargs)
    arguments = self._get_cc_args(options, debug, extra_preargs)
    with ThreadPoolExecutor({jobs}) as pool:
        list(pool.map(lambda name: self._compile(name, *sources_of[name], arguments, postargs, options), sources_of))
    return objects


CCompiler.compile = compile_in_parallel
options = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent", "--no-incremental"]
modules = mypycify({paths} + options, opt_level="2", debug_level="0", multi_file=True, group_name={group!r}, target_dir="generated")
setup(name="compiled", packages=[], py_modules=[], ext_modules=modules)
"""
"""Nearly all sources belong to one extension, whose sources setuptools compiles one after another."""


def build(directory: Path) -> list[Path]:
    """Writes the compiled modules and the digest of their sources into `directory`, and returns it as the only path. Raises CalledProcessError with the output of the tools."""
    digest = source_digest()
    with tempfile.TemporaryDirectory(prefix="weir-compile-") as name:
        folder = Path(name)
        for package in PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__", "*.so", "modules-*")
            shutil.copytree(ROOT / package, folder / package, ignore=ignored)
        paths = [f"{module.replace('.', '/')}.py" for module in MODULES]
        (folder / "setup.py").write_text(SETUP.format(paths=paths, group=GROUP, jobs=os.cpu_count() or 1))
        subprocess.run(
            [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        )
        staged = directory.with_name(f"{directory.name}.new")
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir()
        for module in (LIBRARY, *MODULES):
            target = module_path(staged, module)
            shutil.move(folder / target.name.replace(".", "/", module.count(".")), target)
        (staged / DIGEST_FILE).write_text(digest)
        # A running broker keeps its mapping of the removed files.
        shutil.rmtree(directory, ignore_errors=True)
        staged.rename(directory)
    return [directory]


def main(arguments: Sequence[str]) -> int:
    """Builds nothing if the modules of these sources exist."""
    directory = compiled_directory()
    return 0 if is_current(directory) else report_build(arguments, lambda: build(directory))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
