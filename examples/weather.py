"""A tool for `harmonia chat -T examples/weather.py`: any function with annotations and a docstring will do."""

from harmonia.run import tool


@tool
def get_weather(city: str, unit: str = "celsius") -> dict[str, object]:
    """The weather in a city.

    Args:
        city: Its name, such as Paris.
        unit: celsius or fahrenheit.
    """
    return {"city": city, "temperature": 21 if unit == "celsius" else 70, "sky": "clear"}
