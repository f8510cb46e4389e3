#!/usr/bin/env python
"""Django's usual entry point; see `weir/__main__.py`."""

from weir.__main__ import main

if __name__ == "__main__":
    main()
