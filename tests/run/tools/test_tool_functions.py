"""Tools from functions: what the model is told of them, and what reaches the function."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
import functools
import json
import math
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest

from harmonia import ErrorCode, InputError, Message, Position, ToolError, call_of
from harmonia.messages import Json
from harmonia.run.tools import Tool, ToolSet, tool
from harmonia.schema import to_typescript


class Unit(enum.Enum):
    CELSIUS = "c"
    KELVIN = "k"


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass(frozen=True)
class Place:
    name: str
    height: float = 0.0


class Point(NamedTuple):
    x: int
    y: int


class Options(TypedDict, total=False):
    depth: int


class Row(msgspec.Struct):
    id: int
    tags: list[str] = []


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(description="How they are called.")
    born: datetime.date | None = None


class Tree(msgspec.Struct):
    children: list[Tree] = []


def cases(*given: tuple[Any, ...]) -> list[Any]:
    """Cases of many types."""
    return list(given)


def schema_of(function: Callable[..., Any]) -> Json:
    parameters = Tool.from_function(function).parameters
    assert isinstance(parameters, dict)
    return parameters


def run(function: Callable[..., Any], arguments: object) -> str:
    tools = ToolSet([function])
    call = call_of(Message.call(tools.recipient_of(tools.tools[0]), json.dumps(arguments)), tools.declared)
    assert call is not None
    return asyncio.run(tools.run(call)).text


def refusal(function: Callable[..., Any], arguments: object) -> ToolError:
    with pytest.raises(ToolError) as caught:
        run(function, arguments)
    assert caught.value.code is ErrorCode.TOOL_INVALID_ARGUMENTS
    return caught.value


# ── what the model is told ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_function_says_what_it_takes() -> None:
    def forecast(city: str, days: int = 3, *, unit: Literal["c", "k"] = "c") -> str:
        """Fetch the forecast.

        Args:
            city: The city's name.
            days: How long.
        """
        return city

    made = Tool.from_function(forecast)
    assert (made.name, made.description, made.namespace, made.takes) == (
        "forecast",
        "Fetch the forecast.",
        "functions",
        "json",
    )
    assert made.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "The city's name."},
            "days": {"type": "integer", "description": "How long.", "default": 3},
            "unit": {"enum": ["c", "k"], "default": "c"},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_a_name_and_a_description_of_their_own_go_first() -> None:
    @tool(name="decorated", description="By the decorator.", timeout_s=3)
    def named() -> None:
        """By the docstring."""

    made = Tool.from_function(named)
    assert (made.name, made.description, made.timeout_s) == ("decorated", "By the decorator.", 3)
    made = Tool.from_function(named, name="given", namespace="space")
    assert (made.name, made.description, made.namespace) == ("given", "By the decorator.", "space")


def test_the_decorator_leaves_the_function_as_it_is() -> None:
    @tool
    def double(number: int) -> int:
        return 2 * number

    assert double(2) == 4
    assert run(double, {"number": 2}) == "4"


def test_a_function_without_parameters_has_no_schema() -> None:
    def ping() -> str:
        return "pong"

    assert Tool.from_function(ping).parameters is None
    assert run(ping, {}) == "pong"


def test_descriptions_stand_in_annotations_too() -> None:
    def describe(
        one: Annotated[str, "First."],
        two: Annotated[int, msgspec.Meta(description="Second.", ge=0)],
        three: list[Annotated[str, "Each."]],
        four: Annotated[int, pydantic.Field(description="Fourth.", le=9)],
        five: Annotated[Person, "Fifth."],
    ) -> None:
        """Do.

        :param one: not this
        """

    properties = schema_of(describe)["properties"]
    assert properties["one"] == {"type": "string", "description": "First."}
    assert properties["two"] == {"type": "integer", "description": "Second.", "minimum": 0}
    assert properties["three"] == {"type": "array", "items": {"type": "string", "description": "Each."}}
    assert properties["four"] == {"type": "integer", "description": "Fourth.", "maximum": 9}
    assert properties["five"]["description"] == "Fifth."


def test_titles_and_null_defaults_cost_nothing() -> None:
    def add(person: Person, row: Row | None = None, title: str = "Dr") -> None: ...

    text = json.dumps(schema_of(add))
    assert '"title": {' in text  # the parameter
    assert '"title": "' not in text
    assert '"default": null' not in text


@pytest.mark.parametrize("default", [math.nan, object(), print, {1, 2}.__iter__()])
def test_a_default_without_json_makes_the_parameter_optional_only(default: object) -> None:
    def take(value: Any = default) -> None: ...

    schema = schema_of(take)
    assert schema["properties"] == {"value": {}}
    assert "required" not in schema


class Size(enum.Enum):
    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"


class Order(msgspec.Struct):
    size: Size
    speed: Literal["slow", "fast"] = "slow"
    stars: list[Literal[3, 1, 2]] = []


class Reversed(TypedDict):
    speed: Literal["fast", "slow"]


@dataclasses.dataclass
class Node:
    side: Literal["right", "left"]
    next: Node | None = None


@pytest.mark.parametrize(
    ("annotation", "declared"),
    [
        (Literal["en", "de"], [["en", "de"]]),
        (Literal["z", "a"] | None, [["z", "a"]]),
        (dict[str, list[Annotated[Literal["z", "a"], "what"]]], [["z", "a"]]),
        (Size, [["small", "medium", "large"]]),
        (Order, [["small", "medium", "large"], ["slow", "fast"], [3, 1, 2]]),
        (Node, [["right", "left"]]),
        # The same values in two orders: nobody knows which is meant where.
        (tuple[Order, Reversed], [["fast", "slow"], [3, 1, 2]]),
    ],
)
def test_values_stay_in_the_order_in_which_they_were_declared(annotation: Any, declared: list[Any]) -> None:
    def choose(given: Any) -> None: ...

    choose.__annotations__["given"] = annotation
    found = [json.loads(each) for each in re.findall(r'"enum": (\[.*?\])', json.dumps(schema_of(choose)))]
    assert [each for each in declared if each not in found] == []


def test_two_models_of_one_name_stay_two() -> None:
    one = msgspec.defstruct("Thing", [("a", int)])
    two = pydantic.create_model("Thing", b=str)

    def compare(left: Any, right: Any) -> str:
        return f"{left.a} {right.b}"

    compare.__annotations__.update(left=one, right=two)
    assert run(compare, {"left": {"a": 1}, "right": {"b": "x"}}) == "1 x"
    assert refusal(compare, {"left": {"a": 1}, "right": {"b": 2}}).at == Position(path="$.right.b")


def test_every_schema_can_be_declared() -> None:
    def take(tree: Tree, place: Place, person: Person, options: Options, point: Point, unit: Unit) -> None: ...

    assert to_typescript(schema_of(take)).losses == ()


# ── what the function gets ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("annotation", "sent", "got"),
    cases(
        (str, "x", "x"),
        (int, 3, 3),
        (int, 3.0, 3),
        (float, 3, 3.0),
        (bool, True, True),
        (None, None, None),
        (str | None, None, None),
        (int | str, "3", "3"),
        (list[int], [1], [1]),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[int, ...], [1, 2], (1, 2)),
        (set[str], ["a"], {"a"}),
        (Literal["a", 1], 1, 1),
        (Unit, "k", Unit.KELVIN),
        (Level, 1, Level.LOW),
        (Place, {"name": "Rome"}, Place("Rome")),
        (list[Place], [{"name": "Rome", "height": 3}], [Place("Rome", 3.0)]),
        (Options, {"depth": 2}, {"depth": 2}),
        (Point, [1, 2], Point(1, 2)),
        (Row, {"id": 1}, Row(1)),
        (Person, {"name": "Ada", "born": "1815-12-10"}, Person(name="Ada", born=datetime.date(1815, 12, 10))),
        (list[Person] | None, [{"name": "Ada"}], [Person(name="Ada")]),
        (Place | Person, {"name": "Rome", "height": 2}, Place("Rome", 2.0)),
        (datetime.datetime, "2024-05-01T12:00:00Z", datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)),
        (datetime.date, "2024-05-01", datetime.date(2024, 5, 1)),
        (datetime.timedelta, "PT1S", datetime.timedelta(seconds=1)),
        (Tree, json.loads('{"children": [{}]}'), Tree([Tree()])),
        (Any, {"x": [1]}, {"x": [1]}),
    ),
)
def test_arguments_are_what_the_annotations_say(annotation: Any, sent: object, got: object) -> None:
    received: list[object] = []

    def take(value: Any) -> None:
        received.append(value)

    take.__annotations__["value"] = annotation
    run(take, {"value": sent})
    assert received == [got]
    assert type(received[0]) is type(got)


def test_the_defaults_of_a_dataclass_are_the_instances_own() -> None:
    def take(place: Place) -> dict[str, Any]:
        return vars(place)

    assert run(take, {"place": {"name": "Rome"}}) == '{"name": "Rome", "height": 0.0}'


def test_what_only_the_conversion_finds_is_the_arguments_fault() -> None:
    def take(place: Place, on: datetime.date, people: list[Person]) -> None: ...

    fine: Json = {"place": {"name": "Rome"}, "on": "2024-05-01", "people": []}
    assert run(take, fine) == "null"
    assert refusal(take, {**fine, "on": "yesterday"}).at == Position(path="$.on")
    assert refusal(take, {**fine, "people": [{"name": "A", "born": "?"}]}).at.path == "$.people[0].born"


def test_an_argument_that_is_none_of_the_function_is_refused() -> None:
    def take(city: str) -> None: ...

    assert refusal(take, {"city": "Rome", "county": "x"}).at == Position(path="$")


def test_none_as_a_default_allows_null() -> None:
    def take(city: Any = None) -> str:
        return str(city)

    take.__annotations__["city"] = str  # as people write who are not told that it is wrong

    assert run(take, {"city": None}) == "None"
    assert run(take, {}) == "None"


def test_a_description_stays_that_of_the_whole_where_null_is_allowed() -> None:
    def take(
        city: Annotated[str | None, "Where."] = None, days: Annotated[int, pydantic.Field(description="How long.")] = 3
    ) -> str:
        return f"{city} {days}"

    take.__defaults__ = (None, None)
    properties = schema_of(take)["properties"]
    assert properties == {
        "city": {"description": "Where.", "anyOf": [{"type": "string"}, {"type": "null"}]},
        "days": {"description": "How long.", "anyOf": [{"type": "integer"}, {"type": "null"}]},
    }
    assert run(take, {"city": None, "days": None}) == "None None"


# ── other things that can be called ─────────────────────────────────────────────────────────────────────────────────


class Counter:
    """Counts."""

    def __init__(self) -> None:
        self.count = 0

    @tool(name="count up")
    def add(self, by: int) -> int:
        """Add to the count."""
        self.count += by
        return self.count

    def __call__(self, to: int) -> int:
        """Count to a number."""
        return self.count + to


class Awaited:
    async def __call__(self, number: int) -> int:
        await asyncio.sleep(0)
        return number


def test_a_bound_method_will_do() -> None:
    counter = Counter()
    made = Tool.from_function(counter.add)
    assert (made.name, made.description) == ("count up", "Add to the count.")
    assert run(counter.add, {"by": 2}) == "2"
    assert counter.count == 2


def test_an_object_that_can_be_called_will_do() -> None:
    made = Tool.from_function(Counter())
    assert (made.name, made.description) == ("Counter", "Count to a number.")
    assert run(Counter(), {"to": 2}) == "2"
    assert run(Awaited(), {"number": 2}) == "2"


def test_what_a_partial_fixes_is_not_told() -> None:
    def power(base: int, exponent: int, modulus: int = 1000) -> int:
        return base**exponent % modulus

    cube = functools.partial(functools.partial(power, exponent=3), modulus=100)
    assert schema_of(cube)["properties"] == {"base": {"type": "integer"}}
    assert run(cube, {"base": 5}) == "25"
    assert schema_of(functools.partial(power, 2))["required"] == ["exponent"]
    assert run(functools.partial(power, 2), {"exponent": 3}) == "8"


def test_async_functions_are_awaited() -> None:
    async def later(number: int) -> int:
        await asyncio.sleep(0)
        return number

    assert run(later, {"number": 1}) == "1"
    assert run(functools.partial(later, number=2), {}) == "2"


def test_a_wrapped_function_keeps_its_signature() -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @logged
    def double(number: int) -> int:
        return 2 * number

    @logged
    async def later(number: int) -> int:
        return number

    assert run(double, {"number": 2}) == "4"
    assert run(later, {"number": 2}) == "2"


# ── what is refused ─────────────────────────────────────────────────────────────────────────────────────────────────


def star(*rest: int) -> None: ...
def names(**rest: int) -> None: ...
def positional(a: int, /) -> None: ...
def callback(then: Callable[[], None]) -> None: ...
def odd(thing: Counter) -> None: ...
def nested(things: list[dict[str, Counter]]) -> None: ...
def field(a: int = pydantic.Field(description="A.")) -> None: ...
def unknown(a: int, b: Any) -> None: ...


unknown.__annotations__["b"] = "Nowhere"


@pytest.mark.parametrize(
    ("function", "path"),
    cases(
        (star, "$.rest"),
        (names, "$.rest"),
        (positional, "$.a"),
        (callback, "$.then"),
        (odd, "$.thing"),
        (nested, "$.things"),
        (field, "$.a"),
        (unknown, "$.b"),
        (lambda: 1, None),
        (Counter, None),
        (3, None),
    ),
)
def test_what_a_model_cannot_call_is_refused_by_the_name_of_the_parameter(function: Any, path: str | None) -> None:
    with pytest.raises(InputError) as caught:
        Tool.from_function(function)
    assert (caught.value.code, caught.value.at) == (ErrorCode.TOOL_INVALID_DEFINITION, Position(path=path))


def test_a_coroutine_that_a_decorator_made_synchronous_may_run_a_loop_of_its_own() -> None:
    def synchronous(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(**arguments: Any) -> Any:
            return asyncio.run(function(**arguments))

        return wrapper

    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(**arguments: Any) -> Any:
            return function(**arguments)

        return wrapper

    async def double(x: int) -> int:
        await asyncio.sleep(0)
        return 2 * x

    for decorate in (synchronous, logged):
        call = call_of(Message.call("functions.double", '{"x": 2}'))
        assert call is not None
        assert asyncio.run(ToolSet([decorate(double)]).run(call)).text == "4"


def test_the_type_of_the_result_need_not_be_known() -> None:
    def give(x: int) -> OnlyForTypeCheckers:  # noqa: F821 # pyright: ignore
        return x

    class Object:
        def give(self, x: int) -> OnlyForTypeCheckers:  # noqa: F821 # pyright: ignore
            return x

    expected = {"x": {"type": "integer"}}
    functions: list[Any] = [give, Object().give, functools.lru_cache(give), functools.partial(give)]  # pyright: ignore
    for function in functions:
        parameters = Tool.from_function(function).parameters
        assert isinstance(parameters, dict) and parameters["properties"] == expected


def test_a_function_may_be_strict() -> None:
    @tool(strict=True)
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    assert Tool.from_function(add).strict
    assert not Tool.from_function(add, strict=False).strict
    assert not Tool.from_function(print_nothing).strict
    assert Tool.from_function(print_nothing, strict=True).strict


def print_nothing() -> None:
    """Does nothing."""
