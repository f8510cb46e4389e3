"""The command line over the REST API: `weir topics list`, `weir moves pause 7`. It needs neither Django nor the cluster, only the console's address."""
