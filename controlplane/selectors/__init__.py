"""What is read: rows and values for pages and the API. Law: never a broker, never ZooKeeper (messages of a partition excepted,
bounded); every figure carries its age, unknown is None and not zero. Called by the console and the API."""
