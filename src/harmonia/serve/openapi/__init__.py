"""The OpenAPI document of the server, and the page that is made of it."""

from harmonia.serve.openapi.document import build_openapi
from harmonia.serve.openapi.page import STYLE, write_page

__all__ = ["STYLE", "build_openapi", "write_page"]
