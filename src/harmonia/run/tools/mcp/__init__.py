"""The pieces of the MCP client: what a server is, one connection to it, and what its answers say."""
