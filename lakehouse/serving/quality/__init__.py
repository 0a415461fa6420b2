"""Report on a stream's quality for whoever reads its data: what came in, how new it is, and which rules hold."""
