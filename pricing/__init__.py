"""Money: price tables and the cost of generated tokens. No torch, no gradio, no network."""

from pricing.cost import (
    CostRow,
    RequestParts,
    Throughput,
    cost_table,
    per_million_tokens,
    saving_share,
    usd_per_million_tokens,
)
from pricing.diff import PriceDiff, accept, diff_tables
from pricing.exchange import Exchange
from pricing.export.csv import prices_to_csv, to_csv
from pricing.fx import Converted, Rate, RateError, Rates
from pricing.imports import ImportedPrices, Reading, import_prices
from pricing.money import format_money, format_unit_price
from pricing.rows import PriceRow
from pricing.scenario import Scenario
from pricing.scenario_file import ScenarioError, load_scenario, save_scenario, shipped_scenarios
from pricing.tables import Fault, PriceError, PriceTable, load_prices, load_prices_with_own
from pricing.tcmb import read_bulletin
from pricing.tco import Tco, tco

__all__ = [
    "Converted",
    "CostRow",
    "Exchange",
    "Fault",
    "ImportedPrices",
    "PriceDiff",
    "PriceError",
    "PriceRow",
    "PriceTable",
    "Rate",
    "RateError",
    "Rates",
    "Reading",
    "RequestParts",
    "Scenario",
    "ScenarioError",
    "Tco",
    "Throughput",
    "accept",
    "cost_table",
    "diff_tables",
    "format_money",
    "format_unit_price",
    "import_prices",
    "load_prices",
    "load_prices_with_own",
    "load_scenario",
    "per_million_tokens",
    "prices_to_csv",
    "read_bulletin",
    "save_scenario",
    "saving_share",
    "shipped_scenarios",
    "tco",
    "to_csv",
    "usd_per_million_tokens",
]
