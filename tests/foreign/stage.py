"""Common part of the programs in Python: one feature after the other, with one output line each (`runs` reads them).

begin <feature> | yes <feature> | no <feature> <why> | none <feature> <why> | acked <number>
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

BOOTSTRAP = os.environ.get("SCENE_BOOTSTRAP", "")
SECURED = os.environ.get("SCENE_SECURED", "")
CA = os.environ.get("SCENE_CA", "")
PASSWORD = os.environ.get("SCENE_PASSWORD", "")
MUTUAL = os.environ.get("SCENE_MUTUAL", "")
PEM = {name: os.environ.get(f"SCENE_{name.upper()}", "") for name in ("alice", "bob")}
"""Files with key and certificate."""
ISSUER = os.environ.get("SCENE_ISSUER", "")
TOKEN, FORGED = os.environ.get("SCENE_TOKEN", ""), os.environ.get("SCENE_FORGED", "")
"""alice's, and one that says the same, signed with another key."""
PREFIX = os.environ.get("SCENE_PREFIX", "")
FIRST_MS = 1_700_000_000_000
SECONDS_MAX = 60.0
"""How long anything may take before it counts as not happening."""


def topic(feature: str) -> str:
    return PREFIX + feature


def print_words(*words: object) -> None:
    print(*words, flush=True)


def one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def delayed_records(now_ms: int) -> list[tuple[bytes, bytes | None, list[tuple[str, bytes]]]]:
    """(key, value, headers) for the front topic of delayed messages. `DELAYED` are the values that arrive."""
    return [
        (b"a", b"third", [("x-deliver-at-ms", b"%d" % (now_ms + 6_000))]),
        (b"b", b"cancelled", [("x-deliver-at-ms", b"%d" % (now_ms + 5_500))]),
        (b"c", b"second", [("x-delay-ms", b"3000")]),
        (b"d", b"first", [("x-delay-ms", b"0")]),
        (b"b", None, []),
    ]


DELAYED = ["first", "second", "third"]


def half_records() -> list[tuple[bytes, bytes | None, list[tuple[str, bytes]]]]:
    """(key, value, headers) for the front topic of half messages. `DECIDED` are the values that arrive."""
    halves: list[tuple[bytes, bytes | None, list[tuple[str, bytes]]]] = [
        (b"k", b"order %d" % n, [("x-half-id", b"%d" % n)]) for n in (1, 2, 3)
    ]
    decisions = [(b"3", b"commit"), (b"2", b"rollback"), (b"1", b"commit")]
    return [*halves, *((b"k", None, [("x-half-id", i), ("x-half", d)]) for i, d in decisions)]


DECIDED = ["order 3", "order 1"]


def routed_records() -> list[tuple[bytes, bytes | None, list[tuple[str, bytes]]]]:
    """(key, value, headers) for the source of the route. `ROUTED` are the numbers of the records that each target gets."""
    keys, fraud = (b"paid", b"eu.berlin", b"us"), (b"yes", b"no")
    return [(keys[n % 3], b"v%d" % n, [("fraud", fraud[n % 2]), ("n", b"%d" % n)]) for n in range(12)]


ROUTED = {"-key": [0, 3, 6, 9], "-pattern": [1, 4, 7, 10], "-headers": [0, 2, 4, 6, 8, 10]}


def print_acked(value: bytes | str) -> None:
    print_words("acked", value.decode() if isinstance(value, bytes) else value)


def wait_until(condition: Callable[[], Any], what: str, seconds: float = SECONDS_MAX) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {what}"
        time.sleep(0.02)
    return value


def equal(found: Any, wanted: Any) -> None:
    assert found == wanted, f"{str(found)[:200]} instead of {str(wanted)[:200]}"


def run_features(lacks: Mapping[str, str], *modules: ModuleType) -> None:
    """Run the features named on the command line: `acks-all` is the function `acks_all` of one of the modules, and is given its topic. `lacks` says what
    the client does not have at all."""
    for name in sys.argv[1:]:
        print_words("begin", name)
        if name in lacks:
            print_words("none", name, lacks[name])
            continue
        try:
            [feature] = [f for m in modules if (f := vars(m).get(name.replace("-", "_")))]
            feature(topic(name))
        except BaseException as e:
            traceback.print_exc()
            print_words("no", name, one_line(e))
        else:
            print_words("yes", name)
    sys.stdout.flush()
    os._exit(0)  # threads of clients that failed must not hold the end up
