"""`/v1/chats` in the document: the operations, what is sent, and what is answered."""

from __future__ import annotations

from typing import Final, get_args

from harmonia.messages import Json
from harmonia.serve.openapi.bodies import components_of
from harmonia.serve.openapi.operations import OF_ALL, OF_BODIES, OF_STORED, Operation, in_path, in_query
from harmonia.serve.openapi.shapes import (
    ANY_OBJECT,
    BOOLEAN,
    COUNT,
    INTEGER,
    STRING,
    described,
    listed,
    one_of,
    or_null,
    record,
    ref,
)
from harmonia.serve.saved_chats.request import ChangeChat, CreateChat, ExportFormat, ImportChats, Turn

_ID: Final = in_path("id", "The id of the chat.")
_TURN: Final = in_path("turn", "The id of the turn: `turn_` and letters or digits.")
_OF_WRITES: Final = (404, 429, 503, *OF_BODIES)
_HEAD: Final[Json] = {
    "id": STRING,
    "object": one_of("chat"),
    "title": described(STRING, "Empty where there is none, and no message of the user to make one of."),
    "created_at": INTEGER,
    "updated_at": INTEGER,
    "leaf": described(or_null(STRING), "The turn at the end of the branch that is shown."),
}
_SETTINGS: Final = described(ANY_OBJECT, "How answers are asked for, as it was sent.")
_SAID: Final[Json] = {
    "type": "message",
    "role": "user",
    "content": [{"type": "input_text", "text": "What is the capital of Iceland?"}],
}

CHAT_ANSWERS: Final[dict[str, Json]] = {
    "Chat": record({**_HEAD, "settings": _SETTINGS}),
    "WholeChat": record({**_HEAD, "settings": _SETTINGS, "turns": listed(ref("Turn"), "In the order of writing.")}),
    "ListedChat": record(
        {
            **_HEAD,
            "turns": described(COUNT, "How many there are."),
            "excerpt": described(
                record({"turn": or_null(STRING), "text": STRING}), "Where a query was found; a null turn is the title."
            ),
        },
        ("excerpt",),
    ),
    "ChatList": record(
        {
            "object": one_of("list"),
            "data": listed(ref("ListedChat")),
            "has_more": BOOLEAN,
            "next": described(STRING, "What to send as `after` to go on, also where nothing was found so far."),
        },
        ("next",),
    ),
    "DeletedChat": record({"id": STRING, "object": one_of("chat"), "deleted": one_of(True)}),
    "ImportedChats": record(
        {
            "chats": listed(ref("ListedChat")),
            "format": described(STRING, "What the file was taken for."),
            "losses": listed(STRING, "What had no place, in words."),
        }
    ),
}

CHAT_OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation(
        method="get",
        path="/v1/chats",
        id="listChats",
        tag="Chats",
        summary="List or search the chats",
        said="The one that changed last comes first. With `query`, those that have all of its words, in their titles "
        "or in what is visible of their turns. A search reads a bounded amount; where that is used up, `has_more` is "
        "true and `next` says where to go on. Each API key sees its own.",
        answer="ChatList",
        parameters=(
            in_query("query", {**STRING, "maxLength": 200}, "Words to look for, in any case."),
            in_query("after", STRING, "The id of the chat behind which the page begins."),
            in_query("limit", {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}, "The size of a page."),
        ),
        statuses=(429, *OF_STORED),
    ),
    Operation(
        method="post",
        path="/v1/chats",
        id="createChat",
        tag="Chats",
        summary="Create a chat",
        said="A chat without turns. They are there until they are deleted.",
        body="CreateChat",
        example={"title": "Iceland", "settings": {"effort": "low"}},
        answer="Chat",
        statuses=_OF_WRITES,
    ),
    Operation(
        method="post",
        path="/v1/chats/import",
        id="importChats",
        tag="Chats",
        summary="Import chats from a file",
        said="An export of a chat, Chat Completions or Responses JSON, Harmonia's JSON, Markdown as exported, Harmony "
        "text or token ids; or JSON lines of these. Text stays text: nothing in it becomes a control token, or a seal.",
        body="ImportChats",
        example={"name": "chat.json", "text": '{"messages": [{"role": "user", "content": "Hi"}]}'},
        answer="ImportedChats",
        statuses=_OF_WRITES,
    ),
    Operation(
        method="get",
        path="/v1/chats/{id}",
        id="retrieveChat",
        tag="Chats",
        summary="Retrieve a chat",
        said="With all of its turns.",
        answer="WholeChat",
        parameters=(_ID,),
        statuses=(429, *OF_STORED),
    ),
    Operation(
        method="patch",
        path="/v1/chats/{id}",
        id="changeChat",
        tag="Chats",
        summary="Change a chat",
        said="Its title, its settings, or the branch that is shown.",
        body="ChangeChat",
        example={"title": "The north"},
        answer="Chat",
        parameters=(_ID,),
        statuses=_OF_WRITES,
    ),
    Operation(
        method="delete",
        path="/v1/chats/{id}",
        id="deleteChat",
        tag="Chats",
        summary="Delete a chat",
        said="Everything in it is deleted, also from the files of the store.",
        answer="DeletedChat",
        parameters=(_ID,),
        statuses=(429, *OF_STORED),
    ),
    Operation(
        method="put",
        path="/v1/chats/{id}/turns/{turn}",
        id="putTurn",
        tag="Chats",
        summary="Write a turn",
        said="Or write it anew. Its parent is there, and does not change. A new turn becomes the leaf of the chat.",
        body="Turn",
        example={
            "id": "turn_1",
            "parent": None,
            "role": "user",
            "items": [_SAID],
            "status": "completed",
            "created_at": 1800000000,
            "details": {},
        },
        answer="ListedChat",
        parameters=(_ID, _TURN),
        statuses=_OF_WRITES,
    ),
    Operation(
        method="delete",
        path="/v1/chats/{id}/turns/{turn}",
        id="deleteTurn",
        tag="Chats",
        summary="Delete a turn and all that follow it",
        said="Where the leaf was among them, the parent of the turn becomes it.",
        answer="ListedChat",
        parameters=(_ID, _TURN),
        statuses=(429, *OF_STORED),
    ),
    Operation(
        method="get",
        path="/v1/chats/{id}/export",
        id="exportChat",
        tag="Chats",
        summary="Export a chat",
        said="`json` is the whole chat; the others are the branch that ends in `leaf`, for people (`markdown`) or as "
        "the model had it (`harmony`, `tokens`). The header `harmonia-left-out` says how many messages are not in the "
        "file because they are hidden.",
        parameters=(
            _ID,
            in_query("format", {**one_of(*get_args(ExportFormat)), "default": "json"}, "What to write."),
            in_query("leaf", STRING, "The last turn of the branch; otherwise that of the chat."),
        ),
        answer_said="The file, with its name in `content-disposition`. That of `markdown` is `text/markdown`, that of "
        "`harmony` is `text/plain`, and `tokens` is a list.",
        statuses=(413, 429, 503, 400, 404, *OF_ALL),
    ),
)


def chat_schemas() -> dict[str, Json]:
    """The components of the bodies."""
    _, components = components_of((CreateChat, ChangeChat, ImportChats, Turn))
    return components
