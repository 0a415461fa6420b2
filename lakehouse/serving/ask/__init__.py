"""Range questions over a published version, each answer with the interval that holds the truth."""
