"""The model behind a server: which engine, whether it is ready, and the tools that run here."""
