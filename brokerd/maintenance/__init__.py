"""Periodic work on logs: retention, flushing, compaction, scrubbing, and the clean shutdown."""
