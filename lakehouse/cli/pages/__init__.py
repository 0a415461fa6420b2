"""The output of commands for people: sentences, tables and pages."""
