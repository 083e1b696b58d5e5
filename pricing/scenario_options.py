"""What a scenario may pay for: rented GPUs, bought servers, an API by the token."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from pricing.figure import AtLeastOne, Count, LossShare, NotNegative, Positive, PositiveShare, Rate, Share, YearlyRate
from pricing.rows import Commitment
from pricing.scenario_work import Part, assumed
from pricing.texts import Name

# Bought by the hour and given back when nobody asks; all others are billed around the clock.
BY_THE_HOUR = ("on_demand", "spot", "marketplace")
# Months for which a GPU is paid once it is reserved; a reservation of unstated length is held to be of the shortest
# that is sold. A capacity block is a dated purchase of days or weeks and is bought anew each month: it commits to none.
TERM_MONTHS = {"reserved_1yr": 12, "reserved_3yr": 36, "reserved_unstated": 12}


class CloudPart(Part):
    """`fleet_share` of the replicas at one price: whole ones, dealt out so that all parts have together what the fleet
    takes. `interruption_share`: of a spot GPU's hours, lost to interruptions and to what is done again; so many more
    are rented. A reserved GPU is paid for its whole term, however demand falls; only when that ends may it go. Until
    then it serves, also beyond its part's share, and the other parts have what is left over."""

    commitment: Commitment
    per_gpu_hour: Positive
    fleet_share: PositiveShare = assumed(1.0)
    interruption_share: LossShare = assumed(0.0)

    @property
    def by_the_hour(self) -> bool:
        return self.commitment in BY_THE_HOUR

    @property
    def term_months(self) -> int:
        """Months that a GPU is paid for once rented; 1 where each month decides anew."""
        return TERM_MONTHS.get(self.commitment, 1)


class Cloud(Part):
    """Rented GPUs, in whole instances of `gpus_per_instance`. `support_share` is of the compute bill."""

    name: Name
    parts: Annotated[tuple[CloudPart, ...], Field(min_length=1)]
    gpus_per_instance: Count = assumed(1.0)
    storage_per_month: NotNegative = assumed(0.0)
    egress_per_million_requests: NotNegative = assumed(0.0)
    support_share: Rate = assumed(0.0)

    @model_validator(mode="after")
    def _whole_fleet(self) -> Self:
        if any(part.fleet_share.is_a_range for part in self.parts):
            raise ValueError(f"a fleet share of {self.name} has a range; it is chosen, so give it one value")
        total = sum(part.fleet_share.value for part in self.parts)
        if abs(total - 1) > 1e-9:
            raise ValueError(f"the fleet shares of {self.name} add up to {total:g}; make them add up to 1")
        return self


class Owned(Part):
    """Bought servers. `price` of one; `network_share` of it on top, `install` each. After `life_years` it is replaced
    and sold at `residual_share` of its price; in between its value falls evenly. kW are a server's, at the wall
    without cooling: `pue` adds that. `support_share_per_year` is of the price."""

    name: Name
    gpus_per_server: Count
    price: Positive
    idle_kw: NotNegative
    active_kw: Positive
    per_kwh: NotNegative
    network_share: Rate = assumed(0.0)
    install: NotNegative = assumed(0.0)
    residual_share: Share = assumed(0.0)
    life_years: Positive = assumed(4.0)
    pue: AtLeastOne = assumed(1.54)
    colocation_per_kw_month: NotNegative = assumed(0.0)
    staff_fte: NotNegative = assumed(0.0)
    per_fte_year: NotNegative = assumed(0.0)
    support_share_per_year: YearlyRate = assumed(0.0)
    licence_per_gpu_year: NotNegative = assumed(0.0)

    @model_validator(mode="after")
    def _idle_takes_no_more(self) -> Self:
        if self.idle_kw.value > self.active_kw.value:
            raise ValueError(f"{self.name} takes {self.idle_kw.value:g} kW idle and only {self.active_kw.value:g} busy")
        if self.idle_kw.ends[1] > self.active_kw.ends[0]:
            raise ValueError(
                f"{self.name} takes up to {self.idle_kw.ends[1]:g} kW idle and from {self.active_kw.ends[0]:g} kW "
                "busy; make the two ranges end where they meet"
            )
        return self


class Api(Part):
    """Somebody else's model by the token, per 1M."""

    name: Name
    input_per_million: NotNegative
    output_per_million: Positive
    cached_input_per_million: NotNegative | None = None
