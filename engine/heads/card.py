"""The model card beside a saved head: what it is, and all that was said of its making, as README.md."""

from collections.abc import Mapping
from typing import Any


def model_card(config: Mapping[str, Any], card: Mapping[str, Any]) -> str:
    """Markdown with one line for each entry of `card`; lists of rows become tables."""
    kind = config.get("speculators_model_type") or config.get("model_type")
    shared = config["specscope"]["shared_with_target"]
    lines = [f"# {card.get('title') or f'{str(kind).capitalize()} draft head'}", ""]
    if shared:
        lines += [f"Not in this folder, because they are the target's own: {', '.join(shared)}.", ""]
    return _rest(lines, card)


def plain_card(card: Mapping[str, Any]) -> str:
    """`model_card` for what has no config."""
    return _rest([f"# {card['title']}", ""], card)


def _rest(lines: list[str], card: Mapping[str, Any]) -> str:
    if card.get("target"):
        lines[2:2] = [f"Drafts for {_plain(card['target'])}, and for nothing else.", ""]
    for key, value in card.items():
        if key in ("title", "target") or value is None:
            continue
        title = key.replace("_", " ")
        if isinstance(value, Mapping):
            lines += [f"## {title[:1].upper()}{title[1:]}", "", *_items(value), ""]
        elif isinstance(value, list) and value and all(isinstance(row, Mapping) for row in value):
            lines += [f"## {title[:1].upper()}{title[1:]}", "", *_table(value), ""]
        else:
            lines.append(f"- {title}: {_plain(value)}")
    return "\n".join(lines).rstrip() + "\n"


def _items(values: Mapping[str, Any]) -> list[str]:
    return [f"- {str(k).replace('_', ' ')}: {_plain(v)}" for k, v in values.items()]


def _table(rows: list[Mapping[str, Any]]) -> list[str]:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    head = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    return head + ["| " + " | ".join(_plain(row.get(c, "")) for c in columns) + " |" for row in rows]


def _plain(value: Any) -> str:
    """On one line, and with nothing that Markdown takes for its own table."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(_plain(v) for v in value)
    return " ".join(str(value).split()).replace("|", "\\|")
