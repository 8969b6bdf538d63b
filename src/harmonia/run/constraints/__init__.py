"""What is demanded of a completion: the grammar, the check, and one more attempt."""
