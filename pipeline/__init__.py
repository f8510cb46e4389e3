"""Spark jobs that archive topics to Parquet files (the lake). The Celery worker starts each job as a separate process."""
