"""Who may use a server, and what it keeps secret: API keys, sealed content, private files."""
