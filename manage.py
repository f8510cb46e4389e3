#!/usr/bin/env python
"""The house's one command line: `up`, `down`, `status`, `controller`, `observe` and Django's own commands.

Law: no logic here. Called by the operator and by the supervisor.
"""

import os
import sys


def main() -> None:
    # The settings read the house's folder at import: an option that names it must be known before.
    for i, argument in enumerate(sys.argv):
        if argument == "--data-dir" and i + 1 < len(sys.argv):
            os.environ["WEIR_DATA_DIR"] = sys.argv[i + 1]
        elif argument.startswith("--data-dir="):
            os.environ["WEIR_DATA_DIR"] = argument.partition("=")[2]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.site.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as e:
        sys.exit(f"error: {e}")


if __name__ == "__main__":
    main()
