"""Real servers of object stores, for tests."""
