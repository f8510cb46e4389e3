#!/usr/bin/env python
"""The house's one command line: `up`, `down`, `status`, `controller`, `observe` and Django's own commands.

Law: no logic here. Called by the operator and by the supervisor.
"""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.site.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
