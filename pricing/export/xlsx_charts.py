"""The two charts of the Summary sheet: money paid so far by month, and the way from one option's total to another's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pricing.export.drawing import LINE_COLOURS
from pricing.export.grid import MONTH_ROW, TODAY, Row
from pricing.export.words import Words
from pricing.export.workbook import DIM, GREEN, RED, Workbook
from pricing.export.xlsx_options import Block

_SMALL = {"size": 9, "color": DIM}
_GRID = {"visible": True, "line": {"color": "#E1E5EA", "width": 0.75}}


def cumulative_chart(
    workbook: Workbook, blocks: Sequence[Block], labels: Sequence[Row], words: Words, months: int, size: tuple[int, int]
) -> Any:
    """Plain decoding is dashed; an option has one colour in both arms. labels: rows that begin with the options'
    labels; a name that is given as a text would be read as a cell's where it has an exclamation mark. size: in
    pixels."""
    chart = workbook.book.add_chart({"type": "line"})
    names = list(dict.fromkeys(block.name for block in blocks))
    for block, label in zip(blocks, labels, strict=True):
        row = block.summed
        sheet = row.sheet.made.get_name()
        solid = block.arm == "speculative" or block.kind == "api"
        chart.add_series(
            {
                "name": [sheet, label.index, 0],
                "categories": [sheet, MONTH_ROW, TODAY, MONTH_ROW, TODAY + months],
                "values": [sheet, row.index, TODAY, row.index, TODAY + months],
                "line": {
                    "color": LINE_COLOURS[names.index(block.name) % len(LINE_COLOURS)], "width": 2.25,
                    "dash_type": "solid" if solid else "dash",
                },
            }
        )  # fmt: skip
    _dress(chart, f"{words('chart.cumulative')} ({words('chart.plain_dashed')})")
    chart.set_x_axis({"name": words("chart.month"), "name_font": _SMALL, "num_font": _SMALL, "interval_unit": 6})
    chart.set_y_axis(
        {
            "num_format": f'"{workbook.symbol}"#,##0',
            "num_font": _SMALL,
            "major_gridlines": _GRID,
            "line": {"none": True},
        }
    )
    chart.set_size({"width": size[0], "height": size[1]})
    return chart


def waterfall_chart(
    workbook: Workbook, sheet: str, rows: tuple[int, int], helpers: int, words: Words, size: tuple[int, int]
) -> Any:
    """helpers: the first of the columns that are there for the chart. size: in pixels. Steps hang
    on a bar that has no colour; gains and losses differ in pattern as well as in colour."""
    chart = workbook.book.add_chart({"type": "column", "subtype": "stacked"})
    first, last = rows
    hatched = {"pattern": "wide_upward_diagonal", "fg_color": RED, "bg_color": "#FFFFFF"}
    looks: tuple[tuple[int, str, dict[str, Any]], ...] = (
        (1, "summary.hidden", {"fill": {"none": True}, "border": {"none": True}}),
        (4, "summary.whole", {"fill": {"color": "#0B3A75"}}),
        (2, "summary.saves", {"fill": {"color": GREEN}}),
        (3, "summary.costs", {"pattern": hatched, "border": {"color": RED}}),
    )
    for column, key, look in looks:
        names, values = [sheet, first, 0, last, 0], [sheet, first, helpers + column, last, helpers + column]
        chart.add_series({"name": words(key), "categories": names, "values": values, "gap": 45, **look})
    _dress(chart, words("chart.waterfall"))
    chart.set_legend({"position": "bottom", "font": _SMALL, "delete_series": [0]})
    chart.set_x_axis({"num_font": {**_SMALL, "rotation": -35}})
    chart.set_y_axis(
        {
            "num_format": f'"{workbook.symbol}"#,##0',
            "num_font": _SMALL,
            "major_gridlines": _GRID,
            "line": {"none": True},
        }
    )
    chart.set_size({"width": size[0], "height": size[1]})
    return chart


def _dress(chart: Any, title: str) -> None:
    chart.set_title({"name": title, "name_font": {"size": 12, "bold": True, "color": "#0B3A75"}, "overlay": False})
    chart.set_legend({"position": "bottom", "font": _SMALL})
    chart.set_chartarea({"border": {"color": "#D9DEE4"}})
