"""What somebody does with Instructor, in several modes. Prints what came of it as one JSON object."""

import json
import os
import sys
from typing import Literal

import instructor
from openai import OpenAI
from pydantic import BaseModel

QUESTION = [{"role": "user", "content": "Report on Paris, in celsius"}]


class Report(BaseModel):
    city: str
    unit: Literal["celsius", "fahrenheit"]
    degrees: int


said: dict = {}
for mode in ("TOOLS", "TOOLS_STRICT", "JSON", "JSON_SCHEMA", "RESPONSES_TOOLS"):
    openai = OpenAI(base_url=os.environ["BASE_URL"], api_key="none", max_retries=0)
    client = instructor.from_openai(openai, mode=instructor.Mode[mode], model="demo")
    got = said[mode] = {}
    got["report"] = client.create(response_model=Report, messages=QUESTION, max_retries=0).model_dump()
    # One list, read while it arrives.
    got["reports"] = [each.model_dump() for each in client.create_iterable(response_model=Report, messages=QUESTION)]
    partial = list(client.create_partial(response_model=Report, messages=QUESTION))
    got["streamed"], got["pieces"] = partial[-1].model_dump(), len(partial)
json.dump(said, sys.stdout)
