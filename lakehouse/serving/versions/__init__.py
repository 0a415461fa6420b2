"""Published versions on disk and on an object store: pointer, locks, downloads."""
