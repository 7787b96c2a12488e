"""Certificates: comparison of a converted model with the original."""
