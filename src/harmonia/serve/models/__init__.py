"""The model of a server: which engine, its names, and the tools that run here."""
