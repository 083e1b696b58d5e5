"""The price table on the Cost tab: which rows are shown, and the rows themselves with their sources."""

from datetime import date
from typing import Any

from app.catalogue import Words
from app.components.finance_views import blocks
from app.finance import shown
from app.finance.charts import in_dollars
from app.finance.desk import Desk, Now
from pricing import PriceTable
from pricing.rows import STALE_AFTER_DAYS, PriceRow


def wanted(desk: Desk, table: PriceTable, today: date) -> list[PriceRow]:
    """Prices in force, of the picked provider or of all."""
    provider = desk.picks.get("provider", "")
    known = {row.provider for row in table}
    return in_dollars(table.select(provider=provider if provider in known else None, today=today))


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
    told = words("prices_told", n=len(rows), stale=stale, days=STALE_AFTER_DAYS)
    if now.scenario.currency == "USD" and now.scenario.cloud:
        told += " " + words("prices_own")
    at = {id(row): i for i, row in enumerate(table.rows)}
    body = [_row(row, at[id(row)], words, today) for row in sorted(rows, key=lambda r: (r.gpu_key, r.per_gpu_hour))]
    columns = [
        {"text": words("col_gpu"), "text_left": True},
        {"text": words("col_provider"), "text_left": True},
        {"text": words("col_commitment"), "text_left": True},
        {"text": words("col_usd_hour")},
        {"text": words("col_price_label"), "text_left": True},
    ]
    listed = {"type": "table", "name": "prices", "columns": columns, "rows": body, "dense": True}
    return blocks(
        {"type": "text", "text": told, "tone": "small"},
        {"type": "fold", "name": "prices", "title": words("prices_listed", n=len(rows)), "blocks": [listed]},
    )


def _row(row: PriceRow, at: int, words: Words, today: date) -> dict[str, Any]:
    label = f"{words('label_quoted')}, {row.as_of.isoformat()}"
    if row.is_stale(today):
        label += f", {words('label_stale')}"
    return {
        "cells": [
            row.gpu_key,
            {"t": row.provider, "sub": row.instance},
            words.name("commitment", row.commitment),
            {"t": shown.unit_price(row.usd_per_gpu_hour, "USD", words), "why": ["price", str(at)]},
            {"t": label, "tone": "loss" if row.is_stale(today) else "quiet"},
        ]
    }
