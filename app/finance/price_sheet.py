"""The price table on the Cost tab: which rows are shown, and the rows themselves with their sources."""

from datetime import date
from typing import Any

from app import table_told
from app.catalogue import Words
from app.components.finance_views import blocks
from app.finance import shown
from app.finance.charts import on_axis
from app.finance.desk import Desk, Now
from app.shown_in import now_told
from pricing import Exchange, PriceTable
from pricing.rows import STALE_AFTER_DAYS, PriceRow


def wanted(desk: Desk, table: PriceTable, today: date) -> list[PriceRow]:
    """Prices in force, of the picked provider or of all."""
    provider = desk.picks.get("provider", "")
    known = {row.provider for row in table}
    return list(table.select(provider=provider if provider in known else None, today=today))


def picks(desk: Desk, table: PriceTable, words: Words) -> dict[str, Any]:
    providers = sorted({row.provider for row in table})
    options = [{"value": "", "text": words("provider_all")}, *({"value": p, "text": p} for p in providers)]
    return {
        "type": "picks",
        "picks": [
            {
                "name": "provider",
                "label": words("provider"),
                "value": desk.picks.get("provider", ""),
                "options": options,
            }
        ],
    }


def sheet(desk: Desk, now: Now, table: PriceTable, words: Words, today: date) -> dict[str, Any]:
    rows = wanted(desk, table, today)
    stale = sum(row.is_stale(today) for row in rows)
    told = words("prices_told_in", n=len(rows), stale=stale, days=STALE_AFTER_DAYS)
    currency, points = on_axis(rows, desk.to)
    off = sorted({row.currency for row in rows} - {row.currency for row, _ in points})
    if off:
        count = len(rows) - len(points)
        told += " " + words("prices_off_axis", n=count, currencies=", ".join(off), m=currency)
    own = now.scenario.currency
    to = desk.to if desk.to is not None and desk.to.currency == currency else None
    if now.scenario.cloud and (own == currency or (to is not None and to.reaches(own))):
        told += " " + words("prices_own")
    at = {id(row): i for i, row in enumerate(table.rows)}
    body = [
        _row(row, at[id(row)], desk.to, words, today)
        for row in sorted(rows, key=lambda r: (r.gpu_key, r.currency != currency, r.per_gpu_hour))
    ]
    columns = [
        {"text": words("col_gpu"), "text_left": True},
        {"text": words("col_provider"), "text_left": True},
        {"text": words("col_commitment"), "text_left": True},
        {"text": words("col_gpu_hour")},
        {"text": words("col_price_label"), "text_left": True},
    ]
    listed = {"type": "table", "name": "prices", "columns": columns, "rows": body, "dense": True}
    return blocks(
        {"type": "text", "text": told, "tone": "small"},
        {"type": "text", "text": now_told(desk.to, words), "tone": "small"} if desk.to is not None else None,
        {"type": "text", "text": table_told.told(table, words), "tone": "small"},
        {"type": "fold", "name": "prices", "title": words("prices_listed", n=len(rows)), "blocks": [listed]},
    )


def _row(row: PriceRow, at: int, to: Exchange | None, words: Words, today: date) -> dict[str, Any]:
    label = f"{words('label_quoted')}, {row.as_of.isoformat()}"
    if row.is_stale(today):
        label += f", {words('label_stale')}"
    return {
        "cells": [
            row.gpu_key,
            {"t": row.provider, "sub": row.instance},
            words.name("commitment", row.commitment),
            shown.also(
                {"t": shown.unit_price(row.per_gpu_hour, row.currency, words), "why": ["price", str(at)]},
                row.per_gpu_hour,
                row.currency,
                to,
                words,
            ),
            {"t": label, "tone": "loss" if row.is_stale(today) else "quiet"},
        ]
    }
