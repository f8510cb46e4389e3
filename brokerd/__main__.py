"""`python -m brokerd --config FILE`: one broker, in the foreground. SIGTERM stops it cleanly, exit 0."""

from __future__ import annotations

import sys

from brokerd.compiled import importer


def console_main() -> None:
    """The entry point `brokerd`."""
    if "--interpreted" not in sys.argv:
        importer.install()
    # Imported after `install`, which decides how the modules of the request path are imported.
    from brokerd.runtime.process import main

    sys.exit(main())


if __name__ == "__main__":
    console_main()
