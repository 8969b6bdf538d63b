"""The service of /v1/chats: saved chats, listed, searched, exported to files and imported from them.

The store keeps what a client sends, unchanged. Hidden reasoning in it is a seal, which is not opened here; if the
operator hides reasoning, no text of any leaves from here, whoever wrote it.

Work that grows with the size of a chat runs in threads, so that streams keep flowing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, NoReturn, cast, get_args

import msgspec

from harmonia.errors import ErrorCode, InputError
from harmonia.json_codec import encode_bytes
from harmonia.messages import Json
from harmonia.renderer.renderer import text_of
from harmonia.serve.config.settings import Settings
from harmonia.serve.inspector.turn_trace import RenderTurn
from harmonia.serve.models.server_tools import ServerTool
from harmonia.serve.saved_chats import exports
from harmonia.serve.saved_chats import request as limits
from harmonia.serve.saved_chats.imports import read_file
from harmonia.serve.saved_chats.request import (
    ChangeChat,
    CreateChat,
    ExportFormat,
    ImportChats,
    check_size,
    is_turn_id,
    read_turn,
)
from harmonia.serve.saved_chats.search import look_for, words_of
from harmonia.serve.saved_chats.titles import clean_title, disposition, made_title
from harmonia.serve.security.keys import Caller, new_id
from harmonia.serve.store.base import (
    ChatChange,
    ChatLimits,
    ChatPage,
    ChatStore,
    Excerpt,
    StoredChat,
    StoredChatTurn,
    TurnRefusal,
)
from harmonia.serve.wire.validation import Query, check_query, invalid, limit_of, one_of, read_struct, too_large
from harmonia.serve.wire.work_limits import object_of
from harmonia.vocabulary import END, RETURN

_LIMITS: Final = ChatLimits(limits.MOST_TURNS, limits.MOST_CHAT_BYTES)
_MOST_LISTED: Final = 100
# A search reads this much, and then reports where to continue; in batches, so that no reader of the store is held long.
MOST_SEARCHED_BYTES: Final = 32 * 1024 * 1024
_BATCH_BYTES: Final = 4 * 1024 * 1024
# Searches, imports and exports that run or wait. One of each kind runs at a time, so that other requests have readers
# and cores.
_MOST_WAITING: Final = 16


class ChatExport(NamedTuple):
    """A file. `left_out` is how many messages are hidden, and not in it; `name` is the header that names it."""

    data: bytes
    left_out: int
    media_type: str
    name: str


class SavedChats:
    """All saved chats of a server."""

    def __init__(
        self,
        settings: Settings,
        store: ChatStore,
        tools: Sequence[ServerTool],
        render_turn: RenderTurn,
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._store = store
        self._tools = tools
        self._render_turn = render_turn
        self._clock = clock
        self._search_turn, self._import_turn, self._export_turn = _Turnstile(), _Turnstile(), _Turnstile()

    async def list_(self, caller: Caller, query: Query) -> bytes:
        """A page of the list, the latest change first; with a query, only chats that have its words."""
        check_query(query, ("query", "after", "limit"))
        limit = limit_of(query, _MOST_LISTED)
        after = one_of(query, "after")
        before = None
        if after is not None:
            before = await self._store.chat_place(caller.owner, after)
            if before is None:
                raise _no_chat(after)
        words = words_of(one_of(query, "query") or "")
        if words:
            page = await self._search(caller, words, before, limit)
        else:
            page = await self._store.list_chats(caller.owner, before=before, limit=limit)
        listed: Json = {
            "object": "list",
            "data": [_listed(chat, excerpt) for chat, excerpt in page.chats],
            "has_more": page.before is not None,
        }
        if page.last_id is not None:
            listed["next"] = page.last_id
        return encode_bytes(listed)

    async def create(self, caller: Caller, value: Any) -> bytes:
        """A new chat without turns."""
        asked = read_struct(object_of(value), CreateChat)
        settings = check_size(asked.settings, limits.MOST_SETTINGS_BYTES, "$.settings")
        now = int(self._clock())
        title = clean_title(asked.title or "")
        chat = StoredChat(new_id("chat"), caller.owner, now, now, title, settings)
        await self._add([(chat, [])])
        return _whole(chat)

    async def retrieve(self, caller: Caller, chat_id: str) -> bytes:
        """A chat with all of its turns."""
        chat, turns = await self._load(caller, chat_id)
        turns, _ = await self._shown(turns)
        return _whole(chat)[:-1] + b',"turns":[' + b",".join(turn.body for turn in turns) + b"]}"

    async def change(self, caller: Caller, chat_id: str, value: Any) -> bytes:
        """Change the title, the settings or the branch that is shown."""
        asked = read_struct(object_of(value), ChangeChat)
        settings = title = None
        if asked.settings is not msgspec.UNSET:
            settings = check_size(asked.settings, limits.MOST_SETTINGS_BYTES, "$.settings")
        if asked.title is not msgspec.UNSET:
            title = clean_title(asked.title) or await self._made_title(caller, chat_id)
        if isinstance(asked.leaf, str) and not is_turn_id(asked.leaf):
            invalid("the id of a turn must be `turn_` followed by letters and digits", "$.leaf")
        change = ChatChange(title, settings, asked.leaf)
        now = int(self._clock())
        changed = await self._store.change_chat(caller.owner, chat_id, change, now)
        if changed is None:
            raise _no_chat(chat_id)
        if changed == "no_leaf":
            invalid("this chat has no such turn", "$.leaf")
        return _whole(changed)

    async def delete(self, caller: Caller, chat_id: str) -> bytes:
        """Delete a chat and everything in it."""
        if not await self._store.delete_chat(caller.owner, chat_id):
            raise _no_chat(chat_id)
        return encode_bytes({"id": chat_id, "object": "chat", "deleted": True})

    async def put_turn(self, caller: Caller, chat_id: str, turn_id: str, value: Any) -> bytes:
        """Write a turn, or replace it."""
        turn, data = await asyncio.to_thread(read_turn, object_of(value))
        if turn.id != turn_id:
            invalid("id must be the one in the path", "$.id")
        title = made_title(turn.items) if turn.role == "user" else ""
        stored = StoredChatTurn(turn.id, turn.parent, data)
        now = int(self._clock())
        written = await self._store.put_turn(caller.owner, chat_id, stored, title, now, _LIMITS)
        if written is None:
            raise _no_chat(chat_id)
        return encode_bytes(_listed(written)) if isinstance(written, StoredChat) else _refuse(written)

    async def delete_turn(self, caller: Caller, chat_id: str, turn_id: str) -> bytes:
        """Delete a turn and all that follow it."""
        now = int(self._clock())
        chat = await self._store.delete_turn(caller.owner, chat_id, turn_id, now)
        if chat is None:
            raise InputError(ErrorCode.SERVE_NOT_FOUND, f"no saved chat with this id has a turn {turn_id[:100]!r}")
        return encode_bytes(_listed(chat))

    # ── files ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def export(self, caller: Caller, chat_id: str, query: Query) -> ChatExport:
        """A chat, or a branch of it, as a file."""
        check_query(query, ("format", "leaf"))
        asked = one_of(query, "format") or "json"
        if asked not in get_args(ExportFormat):
            invalid(f"format must be one of {', '.join(get_args(ExportFormat))}, got {asked[:20]!r}", "$.format")
        format_ = cast("ExportFormat", asked)
        chat, turns = await self._load(caller, chat_id)
        leaf = one_of(query, "leaf") or chat.leaf
        if leaf is not None and all(turn.id != leaf for turn in turns):
            invalid("this chat has no such turn", "$.leaf")
        async with self._export_turn.pass_():
            if format_ == "json":
                shown, left_out = await self._shown(turns)
                data = exports.write_json(chat, shown)
            else:
                branch = await asyncio.to_thread(exports.branch_of, turns, leaf, self._settings.limits)
                settings: Json = msgspec.json.decode(chat.settings)
                if format_ == "markdown":
                    hides = self._settings.analysis == "hidden"
                    write = exports.write_chat_markdown
                    data, left_out = await asyncio.to_thread(write, chat.title, settings, branch, hides=hides)
                else:
                    data, left_out = await self._render(format_, settings, branch, caller)
        ending, media_type = exports.FILES[format_]
        return ChatExport(data, left_out, media_type, disposition(chat.title, ending))

    async def _render(
        self, format_: ExportFormat, settings: Json, branch: list[Json], caller: Caller
    ) -> tuple[bytes, int]:
        asked, answered = exports.split_branch(branch)
        if not asked:
            # An answer alone, as from a file with nothing else: what was asked is not known.
            asked, answered = answered, []
        if not asked:
            invalid("this branch has no message that a model could read", "$.leaf")
        lost = 0
        try:
            rendered = await self._render_turn(caller, exports.request_for(settings, asked, self._tools), answered)
        except InputError as error:
            if error.code is not ErrorCode.SERVE_BAD_SEAL:
                raise
            # Sealed for another key, or expired: what cannot be opened is not in the file.
            asked, in_asked = exports.without_seals(asked)
            answered, in_answered = exports.without_seals(answered)
            lost = in_asked + in_answered
            rendered = await self._render_turn(caller, exports.request_for(settings, asked, self._tools), answered)
        tokens = rendered.tokens
        if answered and exports.is_final(answered[-1]) and tokens[-1:] == [END]:
            # It was not sampled here, as from an imported file: it ends as a model ends an answer.
            tokens = [*tokens[:-1], RETURN]

        def write() -> bytes:
            return text_of(tokens, ambiguous="escape").encode() if format_ == "harmony" else encode_bytes(tokens)

        return await asyncio.to_thread(write), rendered.left_out + lost

    async def import_(self, caller: Caller, value: Any) -> bytes:
        """Import the chats of a file: all of them, or none."""
        asked = read_struct(object_of(value), ImportChats)
        now = int(self._clock())
        async with self._import_turn.pass_():
            most = self._settings.limits
            file = await asyncio.to_thread(read_file, asked.text, asked.name, most, now, self._tools)
        chats: list[tuple[StoredChat, list[StoredChatTurn]]] = []
        for draft in file.chats:
            begun = now if draft.created_at is None else draft.created_at
            known = (draft.title, draft.settings, draft.leaf, len(draft.turns))
            chats.append((StoredChat(new_id("chat"), caller.owner, begun, now, *known), draft.turns))
        await self._add(chats)
        listed = [_listed(chat) for chat, _ in chats]
        return encode_bytes({"chats": listed, "format": file.format, "losses": file.losses})

    # ── the store ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _add(self, chats: list[tuple[StoredChat, list[StoredChatTurn]]]) -> None:
        if not await self._store.add_chats(chats, limits.MOST_CHATS):
            too_large(f"there are {limits.MOST_CHATS} saved chats, which is the limit; delete some first", "$")

    async def _load(self, caller: Caller, chat_id: str) -> tuple[StoredChat, tuple[StoredChatTurn, ...]]:
        found = await self._store.load_chat(caller.owner, chat_id)
        if found is None:
            raise _no_chat(chat_id)
        return found

    async def _shown(self, turns: Sequence[StoredChatTurn]) -> tuple[Sequence[StoredChatTurn], int]:
        """The turns as they may be shown, and how many messages lack their text."""
        if self._settings.analysis == "shown":
            return turns, 0
        return await asyncio.to_thread(exports.hide_reasoning, turns)

    async def _made_title(self, caller: Caller, chat_id: str) -> str:
        _, turns = await self._load(caller, chat_id)

        def make() -> str:
            said: Iterable[Json] = (msgspec.json.decode(turn.body) for turn in turns)
            titles = (made_title(each["items"]) for each in said if each["role"] == "user")
            return next(filter(None, titles), "")

        return await asyncio.to_thread(make)

    async def _search(self, caller: Caller, words: list[str], before: int | None, limit: int) -> ChatPage:
        look = look_for(words)
        found: list[tuple[StoredChat, Excerpt | None]] = []
        left = MOST_SEARCHED_BYTES
        async with self._search_turn.pass_():
            while True:
                page = await self._store.list_chats(
                    caller.owner,
                    before=before,
                    limit=limit - len(found),
                    matches=look,
                    most_bytes=min(left, _BATCH_BYTES),
                )
                found += page.chats
                left -= page.read_bytes
                before = page.before
                if before is None or len(found) >= limit or left <= 0:
                    return ChatPage(tuple(found), before, page.last_id)


class _Turnstile:
    """Lets one in at a time; others wait, and when too many wait, the next is refused."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._inside = 0

    @asynccontextmanager
    async def pass_(self) -> AsyncGenerator[None]:
        if self._inside >= _MOST_WAITING:
            raise InputError(
                ErrorCode.SERVE_BUSY,
                f"{_MOST_WAITING} such requests run or wait, which is the limit; try again later",
            )
        self._inside += 1
        try:
            async with self._lock:
                yield
        finally:
            self._inside -= 1


def _listed(chat: StoredChat, excerpt: Excerpt | None = None) -> Json:
    listed = msgspec.structs.asdict(chat)
    del listed["owner"], listed["settings"]
    more = {} if excerpt is None else {"excerpt": msgspec.structs.asdict(excerpt)}
    return {"object": "chat", **listed, **more}


def _whole(chat: StoredChat) -> bytes:
    listed = _listed(chat)
    del listed["turns"]
    return encode_bytes(listed)[:-1] + b',"settings":' + chat.settings + b"}"


def _no_chat(chat_id: str) -> InputError:
    return InputError(ErrorCode.SERVE_NOT_FOUND, f"no saved chat has the id {chat_id[:100]!r}")


def _refuse(why: TurnRefusal) -> NoReturn:
    match why:
        case "no_parent":
            invalid("this chat has no such turn; write the parent first", "$.parent")
        case "other_parent":
            invalid("this turn has another parent, and the parent of a turn cannot change", "$.parent")
        case "too_many":
            too_large(f"the chat has {limits.MOST_TURNS} turns, which is the limit", "$")
        case "too_large":
            too_large(f"the chat would have more than {limits.MOST_CHAT_BYTES} bytes, which is the limit", "$")
