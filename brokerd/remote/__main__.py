"""`python -m brokerd.remote`: the helper process of one broker. Only a broker starts it."""

from __future__ import annotations

import os

from brokerd.remote.helper import main

if __name__ == "__main__":
    os._exit(main())  # running copies are not awaited: the broker that requested them has ended
