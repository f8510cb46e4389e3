"""Authentication and authorization: the SASL server, ACLs, authorization for request handlers, quotas."""
