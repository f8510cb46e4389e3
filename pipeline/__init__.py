"""What Spark computes: topics into the lake. Law: imports neither Django nor brokerd; nobody imports it (the worker starts it as a process)."""
