"""The inspector's API: render, parse, inspect, compare and replay over HTTP."""
