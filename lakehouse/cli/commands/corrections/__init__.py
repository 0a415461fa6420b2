"""Commands that correct what was ingested: rejected records, lost messages, wrong rows, nodes built again."""
