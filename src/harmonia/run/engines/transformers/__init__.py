"""A model in this process, through Hugging Face's transformers."""
