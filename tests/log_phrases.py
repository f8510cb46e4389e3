"""Phrases of log lines that tests of running processes wait for or exclude.

Each phrase is defined here only. `tests/project/test_log_phrases.py` checks that the product still logs it: a test that excludes a phrase
which nothing logs any more cannot fail.
"""

APPENDS_RESUMED = "appends resumed"
APPENDS_SUSPENDED = "appends suspended"
BROKER_REGISTERED = "broker registered"
META_NOT_WRITTEN = "cannot be written"
CONTROLLER_DEPOSED = "controller deposed: name="
CONTROLLER_ELECTED = "controller elected: name="
DIRECTORY_STRAY = "partition directory renamed to -stray"
DISK_HANGS = "the disk hangs"
EVENT_LOOP_STALLED = "event loop stalled"
LEAVES_EVERY_ISR = "this broker leaves every ISR"
LOG_DIRECTORY_OFFLINE = "log directory offline"
LOG_DIRECTORY_SLOW = "log directory slow path="
LOG_TRUNCATED = "log truncated"
METADATA_LOADED = "metadata loaded"
NO_SPACE = "no space left on the device"
PROBED_DEAD = "broker process is dead: broker="
PRODUCE_SUSPENDED = "produce suspended"
REPLICAS_MISSING = "replicas with records are missing"
REPLICA_NOT_OPENED = "replica not opened: reason=disk-full"
REPLICA_RESET = "replica reset: reset_id="
SASL_FAILED = "SASL authentication failed"
SESSION_EXPIRED = "ZooKeeper session expired, registering again"
TRUNCATED = "truncated from"
