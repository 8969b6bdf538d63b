"""The two tools that gpt-oss was trained with, described as it was trained to read them.

They are declared in the system message: `SystemContent().with_tools(BROWSER, PYTHON)`. The texts are those of the
format's documentation; a model knows the tools by these words, so they are data, not ours to improve.
"""

from __future__ import annotations

from harmonia.messages import Json, ToolDescription, ToolNamespace


def _parameters(required: list[str], **properties: Json) -> Json:
    schema: Json = {"type": "object", "properties": properties}
    return {**schema, "required": required} if required else schema


_DEFAULT_MINUS_ONE: Json = {"type": "number", "default": -1}

BROWSER = ToolNamespace(
    "browser",
    "Tool for browsing.\n"
    "The `cursor` appears in brackets before each browsing display: `[{cursor}]`.\n"
    "Cite information from the tool using the following format:\n"
    "`【{cursor}†L{line_start}(-L{line_end})?】`, for example: `【6†L9-L11】` or `【8†L3】`.\n"
    "Do not quote more than 10 words directly from the tool output.\n"
    "sources=web (default: web)",
    (
        ToolDescription(
            "search",
            "Searches for information related to `query` and displays `topn` results.",
            _parameters(
                ["query"],
                query={"type": "string"},
                topn={"type": "number", "default": 10},
                source={"type": "string"},
            ),
        ),
        ToolDescription(
            "open",
            "Opens the link `id` from the page indicated by `cursor` starting at line number `loc`, showing "
            "`num_lines` lines.\n"
            "Valid link ids are displayed with the formatting: `【{id}†.*】`.\n"
            "If `cursor` is not provided, the most recent page is implied.\n"
            "If `id` is a string, it is treated as a fully qualified URL associated with `source`.\n"
            "If `loc` is not provided, the viewport will be positioned at the beginning of the document or centered "
            "on the most relevant passage, if available.\n"
            "Use this function without `id` to scroll to a new location of an opened page.",
            _parameters(
                [],
                id={"type": ["number", "string"], "default": -1},
                cursor=_DEFAULT_MINUS_ONE,
                loc=_DEFAULT_MINUS_ONE,
                num_lines=_DEFAULT_MINUS_ONE,
                view_source={"type": "boolean", "default": False},
                source={"type": "string"},
            ),
        ),
        ToolDescription(
            "find",
            "Finds exact matches of `pattern` in the current page, or the page given by `cursor`.",
            _parameters(["pattern"], pattern={"type": "string"}, cursor=_DEFAULT_MINUS_ONE),
        ),
    ),
)

PYTHON = ToolNamespace(
    "python",
    "Use this tool to execute Python code in your chain of thought. The code will not be shown to the user. This tool "
    "should be used for internal reasoning, but not for code that is intended to be visible to the user (e.g. when "
    "creating plots, tables, or files).\n\n"
    "When you send a message containing Python code to python, it will be executed in a stateful Jupyter notebook "
    "environment. python will respond with the output of the execution or time out after 120.0 seconds. The drive at "
    "'/mnt/data' can be used to save and persist user files. Internet access for this session is UNKNOWN. Depends on "
    "the cluster.",
)
