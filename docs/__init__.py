"""Builds and tests the pages of the documentation. A package, so that its conftest has a unique name."""
