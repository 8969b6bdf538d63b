"""The Responses API: requests and items in, events and responses out."""
