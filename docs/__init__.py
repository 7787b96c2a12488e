"""What fills and tests the pages beside it. A package, so that its conftest has a name of its own."""
