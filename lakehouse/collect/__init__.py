"""Programs that write landing files: from an MQTT broker's messages, and from this machine's own state."""
