"""What the sheets of the Claims tab hold, for its tests."""

from app.catalogue import Words
from pricing import load_prices

EN, TR = Words("en"), Words("tr")
PRICES = load_prices()
UNSEEN = ("type", "kind", "tone", "lang", "name")


def texts(value):
    """All that is to be read of a view's value, in order."""
    if isinstance(value, dict):
        return [t for key, part in value.items() if key not in UNSEEN for t in texts(part)]
    if isinstance(value, list):
        return [t for part in value for t in texts(part)]
    return [value] if isinstance(value, str) else []


def words_of(value):
    return "\n".join(texts(value))


def verdict_of(sheet):
    return next(b for b in sheet["blocks"] if b["type"] == "verdict")["kind"]


def in_the_readers_language(value):
    """What is not marked as another's words."""
    if isinstance(value, dict):
        if value.get("lang") == "en":
            return []
        return [t for key, part in value.items() if key not in UNSEEN for t in in_the_readers_language(part)]
    if isinstance(value, list):
        return [t for part in value for t in in_the_readers_language(part)]
    return [value] if isinstance(value, str) else []
