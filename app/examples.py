"""The example prompts: text to copy from (where drafting pays), text to invent (where it may not), two languages."""

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    key: str
    """Its label in the catalogues."""
    prompt: str

    def as_js(self) -> str:
        return json.dumps(self.prompt)


EXAMPLES = (
    Example(
        "example_fox",
        "Repeat this sentence three times: The quick brown fox jumps over the lazy dog near the river bank.",
    ),
    Example(
        "example_turkish",
        "Şu cümleyi üç kez tekrar et: Boğaz'ın üzerinde ışıldayan köprü, İstanbul'un iki yakasını birleştiriyor.",
    ),
    Example(
        "example_code",
        "Rewrite this function with the name total renamed to amount:\n\n"
        "def add(items):\n    total = 0\n    for item in items:\n        total = total + item.price\n    return total",
    ),
    Example(
        "example_json",
        'Write this as a JSON list of objects with the keys "city" and "country": '
        "Ankara in Türkiye, Paris in France, Rome in Italy, Madrid in Spain.",
    ),
    Example("example_open", "Write a short story about a lighthouse keeper who finds a letter in a bottle."),
)
