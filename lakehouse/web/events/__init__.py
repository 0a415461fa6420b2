"""Changes as they come: events that clients listen to, alarms, and webhooks."""
