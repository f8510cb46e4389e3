"""The program `weir`: the command line over the REST API (`topics`, `moves`, ...: `weir.cli`), `up`, `down`, `status`, `configure` (the files of a
production cluster: `weir.deployment`), the processes of the control plane, and Django's own commands.

`weir`, `python -m weir` and `python manage.py` are the same program.
"""

from __future__ import annotations

import os
import sys
import textwrap

OPTIONS_WITH_VALUE = ("--server", "--token", "--data-dir", "-o", "--output")
"""Options that may precede a command of the REST API."""


def first_word(arguments: list[str]) -> str:
    """The first argument that is neither an option of the command line over the REST API nor its value; "" if there is none."""
    words = iter(arguments)
    for word in words:
        if word in OPTIONS_WITH_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            return word
    return ""


def runs_rest_command(arguments: list[str]) -> bool:
    """Run the command line over the REST API if the first word is one of its commands."""
    from weir.cli.command_names import COMMANDS

    if first_word(arguments) not in COMMANDS:
        return False
    try:
        from weir.cli import app
    except ModuleNotFoundError:  # a node with brokers only: neither click nor requests
        return False
    app.main(arguments)
    return True


def other_commands() -> str:
    """The commands that are not Django's, for `weir help`: Django lists only its own."""
    from weir.cli.command_names import COMMANDS

    names = textwrap.fill(
        " ".join(sorted(COMMANDS)), 100, break_on_hyphens=False, initial_indent="    ", subsequent_indent="    "
    )
    return f"\n[REST API: `weir help topics` lists the verbs of topics]\n{names}\n\n[machines of a production cluster]\n    configure"


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["configure"]:
        from weir.deployment import command

        sys.exit(command.main(arguments[1:]))
    if runs_rest_command([*arguments[1:], "--help"] if arguments[:1] == ["help"] else arguments):
        return
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
    if arguments in ([], ["help"], ["--help"], ["-h"]):
        sys.stdout.write(other_commands() + "\n")


if __name__ == "__main__":
    main()
