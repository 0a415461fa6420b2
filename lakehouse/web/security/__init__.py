"""Access: tokens, the addresses that are bound, and the audit of requests."""
