"""The items of a response: what a client may send, and what it gets."""
