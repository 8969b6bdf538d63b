"""Where responses and chats are stored: one contract, and backends that are chosen by URL."""
