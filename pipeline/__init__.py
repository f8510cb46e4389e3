"""Spark jobs: topics to Iceberg tables or Parquet files (the lake). The Celery worker starts each job as a separate process."""
