"""Certificates, principals, SCRAM and OAuth mechanisms, and the SASL client."""
