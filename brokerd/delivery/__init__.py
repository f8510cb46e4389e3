"""Exactly-once transfer of records from a front partition (delayed messages, half messages) to a partition of its topic.

`transfer.py` decides what is written to the journal and what is sent; `journal.py` has the entries of the journal and their bytes. Does not
contain: when a record is due (that is the feature's decision), logs, connections.
"""
