"""What somebody does with litellm, over either API. Prints what came of it as one JSON object."""

import json
import os
import sys

import litellm

litellm.telemetry = False
SERVER = {"api_base": os.environ["BASE_URL"], "api_key": "none", "num_retries": 0}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "name": "get_weather", "description": "The weather of a city.", "parameters": PARAMETERS}
CHAT_TOOL = {"type": "function", "function": {key: value for key, value in TOOL.items() if key != "type"}}
QUESTION = {"role": "user", "content": "How is the weather in Paris?"}
WEATHER = "sunny in Paris, 20 degrees"


def text_of(response) -> str:
    return "".join(part.text for item in response.output if item.type == "message" for part in item.content)


def use_responses() -> dict:
    said: dict = {"answer": text_of(litellm.responses(model="openai/demo", input="Hello!", **SERVER))}
    events = list(litellm.responses(model="openai/demo", input="Hello!", stream=True, **SERVER))
    said["streamed"] = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    said["last"] = events[-1].type
    asked = litellm.responses(model="openai/demo", input=[QUESTION], tools=[TOOL], **SERVER)
    (call,) = (item for item in asked.output if item.type == "function_call")
    said["call"] = [call.name, json.loads(call.arguments)]
    answered = litellm.responses(
        model="openai/demo",
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": WEATHER}],
        previous_response_id=asked.id,
        tools=[TOOL],
        **SERVER,
    )
    said["with_tool"] = text_of(answered)
    return said


def use_chat() -> dict:
    hello = [{"role": "user", "content": "Hello!"}]
    whole = litellm.completion(model="openai/demo", messages=hello, **SERVER)
    said: dict = {"answer": whole.choices[0].message.content}
    chunks = list(litellm.completion(model="openai/demo", messages=hello, stream=True, **SERVER))
    said["streamed"] = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    said["last"] = chunks[-1].choices[0].finish_reason
    asked = litellm.completion(model="openai/demo", messages=[QUESTION], tools=[CHAT_TOOL], **SERVER)
    (call,) = asked.choices[0].message.tool_calls
    said["call"] = [call.function.name, json.loads(call.function.arguments)]
    messages = [QUESTION, asked.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": WEATHER}]
    answered = litellm.completion(model="openai/demo", messages=messages, tools=[CHAT_TOOL], **SERVER)
    said["with_tool"] = answered.choices[0].message.content
    return said


json.dump({"responses": use_responses(), "chat": use_chat()}, sys.stdout)
