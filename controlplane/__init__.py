"""What the operator wants, and the controller that makes it so.

Law: services write, selectors read, doors (API, tasks, commands) are thin. Imports brokerd.wire and brokerd.cluster only.
Called by the console (services, selectors, events) and by the supervisor. Must not come in: pages, Spark, broker internals.
"""
