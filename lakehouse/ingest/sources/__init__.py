"""Sources of a stream: from files and topics to numbered lines."""
