"""Kernels, dictionaries, functions in an RKHS and their linear algebra; nothing here knows an environment."""
