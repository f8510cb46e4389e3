"""`python -m tests.fuzz --minutes 60`: runs dialogs until the time is up. With atheris (pip install atheris) guided by coverage, else by seed.

Exit status 1 if a problem was found. It is written to `build/fuzz/found`; a dialog worth keeping goes to tests/fuzz/cases.
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import random
import sys
import time
from pathlib import Path

DATA_BYTES = (30, 120, 400, 1_500)
SEEDS = 200
"""Initial dialogs of an empty corpus."""


def by_chance(run: object, seed: int, seconds: float) -> None:
    rng = random.Random(seed)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        run.run_case(rng.randbytes(rng.choice(DATA_BYTES)))  # type: ignore[attr-defined]


def by_coverage(work: Path, found: Path, seed: int, seconds: float) -> None:
    """Does not return: libFuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["brokerd"]):
        from tests.fuzz.run import Run
    run = Run(work, found)
    corpus = work / "corpus"
    corpus.mkdir(exist_ok=True)
    if not any(corpus.iterdir()):
        rng = random.Random(seed)
        for n in range(SEEDS):
            (corpus / f"seed-{n}").write_bytes(rng.randbytes(rng.choice(DATA_BYTES)))
    arguments = [
        sys.argv[0],
        f"-max_total_time={int(seconds)}",
        f"-max_len={DATA_BYTES[-1]}",
        "-rss_limit_mb=0",
        "-timeout=600",
        f"-seed={seed}",
        "-len_control=0",
        "-print_final_stats=1",
        str(corpus),
    ]
    atheris.Setup(arguments, run.run_case)
    atheris.Fuzz()


def main() -> int:
    p = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    p.add_argument("--minutes", type=float, default=5)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--engine", choices=("coverage", "chance"))
    p.add_argument("--work", type=Path, default=Path("build/fuzz"))
    arguments = p.parse_args()
    logging.disable(logging.WARNING)
    work = arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    engine = arguments.engine or ("coverage" if importlib.util.find_spec("atheris") else "chance")
    if engine == "coverage":
        by_coverage(work, work / "found", arguments.seed, arguments.minutes * 60)
    from tests.fuzz.run import Run

    run = Run(work, work / "found")
    by_chance(run, arguments.seed, arguments.minutes * 60)
    run.write()
    print((work / "stats.json").read_text())
    return 1 if run.problems else 0


if __name__ == "__main__":
    sys.exit(main())
