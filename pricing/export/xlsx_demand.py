"""Months, demand and machines at work: the part of the Calculation sheet that all options share."""

from __future__ import annotations

from dataclasses import dataclass

from xlsxwriter.utility import xl_col_to_name

from pricing.export.formula import Formula, both, largest, logarithm, poisson, round_up, smallest, when
from pricing.export.grid import MONTH_ROW, TODAY, YEAR_ROW, Grid, Row
from pricing.export.words import Words
from pricing.export.xlsx_inputs import Inputs
from pricing.queue import BUSY_SHARES
from pricing.scenario import ARMS, Arm, Scenario


@dataclass(frozen=True)
class Time:
    """month: 0 is today. left: months to the end of the term, this one with them. last: 1 in the last month."""

    month: Row
    discount: Row
    left: Row
    last: Row
    monthly_rate: Formula
    hours_per_month: Formula
    weeks_per_month: Formula


@dataclass(frozen=True)
class Work:
    """What is asked for, each month."""

    requests: Row
    input_tokens: Row
    cached_tokens: Row
    output_tokens: Row
    per_day: Row


@dataclass(frozen=True)
class Fleet:
    """What one way of decoding needs. *_s: seconds of a replica that a request takes."""

    input_s: Formula
    cached_s: Formula
    output_s: Formula
    total_s: Formula
    at_work: Row
    replicas: Row


class Demand:
    """Writes itself into the grid."""

    def __init__(self, grid: Grid, x: Inputs, scenario: Scenario, words: Words) -> None:
        self.grid, self.x, self.words = grid, x, words
        self.time = self._time()
        self.work = self._work()
        self.fleets: dict[Arm, Fleet] = {arm: self._fleet(scenario, arm) for arm in ARMS}

    def whole_up(self, part: Formula) -> Formula:
        """Whole machines; what rounding leaves behind a whole number does not count as one more."""
        return largest(0, round_up(part - self.x.constant("tolerance")))

    def _time(self) -> Time:
        grid, x, words = self.grid, self.x, self.words
        sheet = grid.sheet
        months: dict[int, float] = {}
        sheet.put(MONTH_ROW, 0, words("calc.month"), look="head")
        sheet.put(MONTH_ROW, 1, words("calc.unit"), look="head")
        sheet.put(MONTH_ROW, 2, words("calc.whole"), "number", "head")
        sheet.put(MONTH_ROW, 3, None, look="head")
        for month in range(grid.months + 1):
            before = Formula(f"{sheet.name}!{xl_col_to_name(TODAY + month - 1)}{MONTH_ROW + 1}", float(month - 1))
            sheet.put(MONTH_ROW, TODAY + month, before + 1 if month else 0, "whole", "head")
            months[month] = float(month)
        month_row = Row(sheet, MONTH_ROW, grid.months, months, Formula("0", 0.0), Formula("0", 0.0))
        per_year = x.constant("months_per_year")
        grid.line(
            words("calc.year"), "", lambda t: round_up(month_row[t] / per_year), "whole", look="note", whole=None,
            at=YEAR_ROW,
        )  # fmt: skip
        grid.heading(words("calc.time"))
        hours = grid.value(words("calc.hours_per_month"), words("unit.hours"), x.constant("hours_per_year") / per_year)
        weeks = x.constant("days_per_year") / per_year / x.constant("days_per_week")
        weeks = grid.value(words("calc.weeks_per_month"), words("unit.weeks"), weeks)
        yearly = x("cost_of_capital")
        rate = grid.value(
            words("calc.monthly_rate"), words("unit.share_month"), (1 + yearly) ** (1 / per_year) - 1, "factor"
        )
        return Time(
            month=month_row,
            discount=grid.line(
                words("calc.discount"), words("unit.factor"), lambda t: 1 / (1 + rate) ** month_row[t], "factor",
                first=0, whole=None,
            ),
            left=grid.line(
                words("calc.left"), words("unit.months"), lambda t: month_row.fixed(grid.months) - month_row[t] + 1,
                "whole", whole=None,
            ),
            last=grid.line(
                words("calc.last"), words("unit.switch"),
                lambda t: when(month_row[t].same_as(month_row.fixed(grid.months)), 1, 0), "whole", whole=None,
            ),
            monthly_rate=rate,
            hours_per_month=hours,
            weeks_per_month=weeks,
        )  # fmt: skip

    def _work(self) -> Work:
        grid, x, words = self.grid, self.x, self.words
        month, per_year = self.time.month, x.constant("months_per_year")
        grid.heading(words("calc.demand"))
        days = grid.value(words("calc.days_per_month"), words("unit.days"), x.constant("days_per_year") / per_year)
        grown = grid.line(
            words("calc.growth"), words("unit.factor"),
            lambda t: (1 + x("workload.growth_per_year")) ** ((month[t] - 1) / per_year), "factor", whole=None,
        )  # fmt: skip
        per_day = grid.line(
            words("calc.per_day"), words("unit.requests_day"), lambda t: x("workload.requests_per_day") * grown[t],
            "count", whole=None,
        )  # fmt: skip
        requests = grid.line(words("calc.requests"), words("unit.requests"), lambda t: per_day[t] * days, "count")
        tokens = words("unit.tokens")
        read = grid.line(words("calc.read"), tokens, lambda t: requests[t] * x("workload.input_tokens"), "count")
        cached = grid.line(
            words("calc.cached"), tokens, lambda t: read[t] * x("workload.cached_input_share"), "count"
        )  # fmt: skip
        return Work(
            requests=requests,
            input_tokens=grid.line(words("calc.uncached"), tokens, lambda t: read[t] - cached[t], "count"),
            cached_tokens=cached,
            output_tokens=grid.line(
                words("calc.written"), tokens, lambda t: requests[t] * x("workload.output_tokens"), "count"
            ),
            per_day=per_day,
        )

    def _fleet(self, scenario: Scenario, arm: Arm) -> Fleet:
        grid, x, words = self.grid, self.x, self.words
        grid.heading(words("calc.fleet", arm=words(f"arm.{arm}")))
        seconds = words("unit.seconds_request")
        factor, speed = x("serving.speed_factor"), words("unit.tokens_second")
        read_speed = x(f"serving.{arm}.input_tokens_per_second") * factor
        read_speed = grid.value(words("calc.read_speed"), speed, read_speed)
        write_speed = x(f"serving.{arm}.output_tokens_per_second") * factor
        if arm == "speculative":
            write_speed = write_speed * (1 - x("speculation.capacity_share_taken"))
        write_speed = grid.value(words("calc.write_speed"), speed, write_speed)
        tokens, cached = x("workload.input_tokens"), x("workload.cached_input_share")
        input_s = grid.value(words("calc.input_s"), seconds, tokens * (1 - cached) / read_speed, "factor")
        cached_cost = tokens * cached * x("serving.cached_input_cost_share") / read_speed
        cached_s = grid.value(words("calc.cached_s"), seconds, cached_cost, "factor")
        output_s = grid.value(words("calc.output_s"), seconds, x("workload.output_tokens") / write_speed, "factor")
        total_s = grid.value(words("calc.total_s"), seconds, input_s + cached_s + output_s, "factor", "strong")
        limit = self._limit(scenario, arm, total_s)
        on = x.constant("seconds_per_day") * x("workload.hours_on_share")
        replica = words("unit.replicas")
        per_day = self.work.per_day
        at_work = grid.line(
            words("calc.at_work"), replica, lambda t: per_day[t] / on * total_s, "number", whole=None
        )  # fmt: skip
        peak, spare = x("workload.peak_factor"), x("serving.spare_replicas")
        replicas = grid.line(
            words("calc.replicas"), replica, lambda t: largest(1, self.whole_up(at_work[t] * peak / limit)) + spare,
            "count", whole=None,
        )  # fmt: skip
        return Fleet(input_s, cached_s, output_s, total_s, at_work, replicas)

    def _limit(self, scenario: Scenario, arm: Arm, total_s: Formula) -> Formula:
        """How busy a replica may be: as given; or where P95 crosses its target on the measured load curve; or where it
        does with what the queue makes requests wait, and never more than given."""
        grid, x, words = self.grid, self.x, self.words
        share = words("unit.share_time")
        points = scenario.load_curve.get(arm)
        if scenario.serving.p95_target_s is None:
            return grid.value(words("calc.limit"), share, x("serving.busy_limit"), "share")
        if points:
            order = sorted(range(len(points)), key=lambda i: (points[i].busy_share.value, points[i].p95_s.value))
            width = self._wide(len(order))
            busy = width.line(
                words("calc.point_busy"), share, lambda t: x(f"load_curve.{arm}.{order[t]}.busy_share"), "share",
                first=0, whole=None,
            )  # fmt: skip
            p95 = width.line(
                words("calc.point_p95"), words("unit.seconds"), lambda t: x(f"load_curve.{arm}.{order[t]}.p95_s"),
                first=0, kind="number", whole=None,
            )  # fmt: skip
            limits = self._crossed(width, busy, p95, x("serving.p95_target_s"))
            return grid.value(words("calc.limit"), share, largest(limits.all), "share")
        width = self._wide(len(BUSY_SHARES))
        busy, p95 = self._queue(width, total_s)
        # Where not even an idle replica keeps it, the fleet is that of the nearest target that can be kept.
        wanted, alone = x("serving.p95_target_s"), p95.fixed(0)
        room = 1 + x.constant("tolerance")
        limits = self._crossed(width, busy, p95, largest(wanted, alone) * room)
        grid.value(words("calc.kept"), words("unit.switch"), when(wanted * room < alone, 0, 1), "whole")
        limit = smallest(x("serving.busy_limit"), largest(limits.all))
        return grid.value(words("calc.limit"), share, limit, "share")

    def _wide(self, points: int) -> Grid:
        """A point a column, from month 0's on."""
        width = Grid(self.grid.sheet, points - 1)
        width.next = self.grid.next
        return width

    def _queue(self, width: Grid, total_s: Formula) -> tuple[Row, Row]:
        """(busy share, P95 in s): Erlang's chance to wait, from two of Poisson's, and what 5 % wait longer than."""
        x, words = self.x, self.words
        places, chance = x("serving.requests_at_once"), words("unit.share_requests")
        busy = width.running(
            words("calc.point_busy"), words("unit.share_time"),
            lambda before, t: before + x.constant("busy_step"), "share",
        )  # fmt: skip
        blocked = width.line(
            words("calc.point_blocked"), chance,
            lambda t: poisson(places, places * busy[t], upto=False) / poisson(places, places * busy[t], upto=True),
            "share", first=0, whole=None,
        )  # fmt: skip
        waiting = width.line(
            words("calc.point_waiting"), chance, lambda t: blocked[t] / (1 - busy[t] * (1 - blocked[t])), "share",
            first=0, whole=None,
        )  # fmt: skip
        wait = width.line(
            words("calc.point_wait"), words("unit.requests_long"),
            lambda t: largest(0, logarithm(waiting[t] / x.constant("later"))) / (places * (1 - busy[t])), "factor",
            first=0, whole=None,
        )  # fmt: skip
        p95 = width.line(
            words("calc.point_p95"), words("unit.seconds"), lambda t: places * total_s * (1 + wait[t]), "number",
            first=0, whole=None,
        )  # fmt: skip
        return busy, p95

    def _crossed(self, width: Grid, busy: Row, p95: Row, target: Formula) -> Row:
        """How busy a replica may be as far as each point says: up to the first point beyond the target, straight
        between the two."""
        words = self.words
        missed = width.running(
            words("calc.point_missed"), words("unit.switch"),
            lambda before, t: largest(before, when(p95[t] > target, 1, 0)), "whole",
        )  # fmt: skip

        def upto(t: int) -> Formula:
            # In front of the first point there is a blank cell, which is no point to begin a line at.
            across = busy[t - 1] + (busy[t] - busy[t - 1]) * (target - p95[t - 1]) / (p95[t] - p95[t - 1])
            first_missed = both(missed[t - 1].same_as(0), p95[t - 1] > 0)
            return when(missed[t].same_as(0), busy[t], when(first_missed, across, 0))

        share = words("unit.share_time")
        limits = width.line(words("calc.point_limit"), share, upto, "share", first=0, whole=None)
        self.grid.next = width.next
        return limits
