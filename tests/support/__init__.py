"""Support that tests share: servers, streams, small lakehouses, and runs that are killed."""
