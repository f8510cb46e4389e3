"""Who is at the other end, and what they may do: certificates, SASL, principals, ACL decisions, quotas.

Law: no secret leaves this package but to be compared; passwords are neither kept nor logged. Called by `net` (TLS), `dispatch` (who asks) and
`broker`. Must not come in: partitions, groups, what a request does.
"""
