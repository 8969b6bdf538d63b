"""Running models of other families: prompts in text, answers read by their family's reader."""
