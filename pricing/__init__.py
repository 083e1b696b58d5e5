"""Money: price tables and the cost of generated tokens. No torch, no gradio, no network."""

from pricing.cost import CostRow, Throughput, cost_table, format_usd, saving_share, usd_per_million_tokens
from pricing.export.csv import to_csv
from pricing.rows import PriceRow
from pricing.tables import Fault, PriceError, PriceTable, load_prices

__all__ = [
    "CostRow",
    "Fault",
    "PriceError",
    "PriceRow",
    "PriceTable",
    "Throughput",
    "cost_table",
    "format_usd",
    "load_prices",
    "saving_share",
    "to_csv",
    "usd_per_million_tokens",
]
