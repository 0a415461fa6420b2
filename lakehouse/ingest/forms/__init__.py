"""Other forms as objects of JSON, which the parser takes: lines of metrics and positions, elements of XML."""
