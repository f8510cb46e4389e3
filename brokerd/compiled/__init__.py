"""The request path of a broker, compiled by mypyc where a C compiler is installed (decision 096)."""
