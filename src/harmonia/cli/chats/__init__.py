"""What `harmonia chat` is made of: the session, the screen, the questions, the saved conversations."""
