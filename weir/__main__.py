"""The command line of the control plane: `up`, `down`, `status`, `controller`, `monitor` and Django's own commands.

`weir`, `python -m weir` and `python manage.py` are the same program.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    # The settings read the data directory at import: the option that names it must be known before.
    for i, argument in enumerate(sys.argv):
        if argument == "--data-dir" and i + 1 < len(sys.argv):
            os.environ["WEIR_DATA_DIR"] = sys.argv[i + 1]
        elif argument.startswith("--data-dir="):
            os.environ["WEIR_DATA_DIR"] = argument.partition("=")[2]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weir.settings")
    try:
        from django.core.exceptions import ImproperlyConfigured
        from django.core.management import execute_from_command_line
    except ModuleNotFoundError as e:
        sys.exit(
            f"error: {(e.name or 'a package').partition('.')[0]} is not installed: pip install 'weir[controlplane,pipeline]' installs what `weir` needs"
        )

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as e:
        sys.exit(f"error: {e}")


if __name__ == "__main__":
    main()
