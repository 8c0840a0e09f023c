"""Kernels, dictionaries, functions in an RKHS and their linear algebra; nothing here depends on an environment."""
