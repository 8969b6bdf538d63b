"""The OpenAPI document of the server, and the page that is made of it."""
