"""Running a model: engines and upstreams, tools, the turn and the loop around it."""
