"""Doors: each module is one Spark run, started as `python -m pipeline.jobs.NAME`. Law: parse, call, say how it ended."""
