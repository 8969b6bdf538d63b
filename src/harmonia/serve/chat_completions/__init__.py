"""Chat Completions: the body of a request, what the model is told of it, and the answer in chunks or whole."""
