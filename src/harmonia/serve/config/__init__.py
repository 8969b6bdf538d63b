"""Settings: what can be set, where values come from, and how the effective ones are printed."""
