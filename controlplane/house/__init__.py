"""The embedded house: ports, processes and folders of one machine. Law: ends only what it started."""
