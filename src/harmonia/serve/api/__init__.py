"""The wire objects of the APIs, to and from conversations and events. Pure: no sockets, no clock, no store."""
