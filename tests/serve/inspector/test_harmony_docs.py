"""Every example of docs/reference/harmony-endpoints.md, sent to a real server."""

from __future__ import annotations

import asyncio
import json
import re
import shlex

from tests.support.paths import ROOT
from tests.support.servers.http_servers import running

PAGE = ROOT / "docs" / "reference" / "harmony-endpoints.md"
_EXAMPLE = re.compile(r"```sh\n(?P<command>curl .*?)\n```\n(?:```json\n(?P<answer>.*?)\n```\n)?", re.DOTALL)


def test_every_example_gives_what_the_page_says() -> None:
    async def talk() -> None:
        examples = list(_EXAMPLE.finditer(PAGE.read_text()))
        assert len(examples) >= 6
        async with running() as server:
            for example in examples:
                words = shlex.split(example["command"])
                path = words[1].removeprefix("localhost:8765")
                answer = await server.ask("POST", path, json.loads(words[words.index("-d") + 1]))
                assert answer.status in (200, 422), answer.body
                if example["answer"] is not None:
                    assert answer.json == json.loads(example["answer"])

    asyncio.run(talk())
