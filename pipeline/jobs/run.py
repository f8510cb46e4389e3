"""`python -m pipeline.jobs.run FOLDER`: runs the job that FOLDER/run.json describes. The worker starts it; SIGTERM ends it after its current step."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pipeline.jobs.archive import reason
from pipeline.jobs.archive_lake import ArchiveToLake
from pipeline.jobs.base import AlreadyRunning, Job, RunContext
from pipeline.jobs.compact import Compact
from pipeline.jobs.forecast import ForecastJob
from pipeline.jobs.history import History
from pipeline.jobs.profile import ProfileTopics
from pipeline.jobs.reconcile import Reconcile
from pipeline.jobs.replay import ReplayToTopic
from pipeline.tables import Contradiction
from weir_common.java import JavaMissing
from weir_common.spark_jobs import KINDS, parse
from weir_common.spark_runs import Exit, Phase

JOBS: dict[str, type[Job]] = {
    job.name: job for job in (ArchiveToLake, Compact, ForecastJob, History, ProfileTopics, Reconcile, ReplayToTopic)
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m pipeline.jobs.run", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder with run.json")
    folder = parser.parse_args().folder.resolve()
    try:
        with RunContext.of(folder) as context:
            return run(context)
    except (AlreadyRunning, OSError, TypeError, ValueError) as e:
        print(f"run: {e}", file=sys.stderr)
        return Exit.REJECTED


def run(context: RunContext) -> int:
    """Run the job and report its end. Returns the exit code."""
    context.update_status(phase=Phase.STARTING)
    try:
        job = JOBS[context.run.kind](**parse(KINDS[context.run.kind], context.run.parameters))
        job.run(context)
    except Exception as e:  # the end of the run is reported for every exception of the job
        text, is_final = reason(e), isinstance(e, Contradiction | JavaMissing | ValueError)
        context.update_status(phase=Phase.FAILED, error=text, is_final=is_final)
        print(f"{context.run.kind}: {text}", file=sys.stderr)
        return Exit.REJECTED if is_final else Exit.FAILED
    context.update_status(phase=Phase.ENDED)
    return Exit.OK


if __name__ == "__main__":
    sys.exit(main())
