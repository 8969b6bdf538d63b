"""Saved chats: the conversations of the page, stored, searched, exported and imported."""
