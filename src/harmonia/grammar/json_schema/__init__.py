"""JSON Schema as rules: what a schema says of each kind of value, and how JSON spells it."""
