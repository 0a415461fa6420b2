"""Commands that declare streams: a first configuration, a stream of files as they are, a declaration on trial."""
