"""What the APIs share: JSON in and out, validation, limits, errors and trusted messages. No sockets, no store."""
