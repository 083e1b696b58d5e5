"""Which price table is in force, in a sentence for the page."""

from app import own_prices
from app.catalogue import Words
from pricing import PriceTable

SHOWN = 12  # letters of a hash


def told(prices: PriceTable, words: Words) -> str:
    newest = max((row.as_of for row in prices), default=None)
    known = {"file": prices.file, "sha256": f"{prices.sha256[:SHOWN]}…", "date": newest.isoformat() if newest else "–"}
    own = own_prices.count_own(prices)
    return words("table_own", **known, n=own) if own else words("table_in_force", **known)
