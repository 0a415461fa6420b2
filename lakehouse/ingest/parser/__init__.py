"""Parser of every source: numbered lines to typed rows, with a reason for those that are rejected."""
