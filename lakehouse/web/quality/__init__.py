"""Pages of reports on quality: plain HTML without scripts, the same over HTTP and as a file."""
