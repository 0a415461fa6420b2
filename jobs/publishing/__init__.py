"""The content of a version to publish: snapshots of streams and queries, and the streams that are withheld."""
