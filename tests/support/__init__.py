"""What tests share: servers, streams, small lakehouses, and runs that are killed."""
