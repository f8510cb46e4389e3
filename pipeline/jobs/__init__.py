"""Spark jobs. Each module is one run, started as `python -m pipeline.jobs.NAME`: it parses arguments, runs, and reports the result."""
