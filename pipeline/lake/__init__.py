"""Topics as Apache Iceberg tables, through pyiceberg (decision 063). Spark's tasks write data files, the driver commits them.

Invariant: the position of each partition is a property of the table and changes in the same commit as the rows. It is the only state of an
archive. Does not contain: Spark sessions (`pipeline.session`), jobs (`pipeline.jobs`).
"""
