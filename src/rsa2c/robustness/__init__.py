"""Observation errors: regions, certificates, attacks, the paper's bounds."""
