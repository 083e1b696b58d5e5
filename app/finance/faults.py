"""What `pricing` says is wrong with a scenario, in the reader's language and notation."""

import re

from app.catalogue import Words
from app.finance.fields import is_share, label
from app.finance.shown import number, percent

_N = r"(-?[0-9.e+-]+|nan|inf)"
# What `pricing.figure` demands of a number, by its words there.
_MUST = {
    "above 0": "must_above_0",
    "at least 0": "must_at_least_0",
    "at least 1": "must_at_least_1",
    "a share from 0 to 1 (0.25 is a quarter)": "must_share",
    "a share above 0 and at most 1": "must_share_above_0",
    "a share from 0 to below 1": "must_share_below_1",
    "above -1 (0.2 is 20 % a year more)": "must_growth",
    "a whole number of at least 1": "must_whole_1",
    "a whole number of at least 0": "must_whole_0",
}
# pricing's sentence -> the catalogues' key, and the names of its groups. Numbers are written anew.
_SAID: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (rf"{_N} is not between its low {_N} and its high {_N}", "fault_range", ("value", "low", "high")),
    (r"give both low and high, or neither", "fault_half_range", ()),
    (r"a (\w+) number needs a source; say where it comes from", "fault_no_source", ("kind",)),
    (rf"the fleet shares of (.*) add up to {_N}; make them add up to 1", "fault_fleet", ("name", "value")),
    (r"a fleet share of (.*) has a range; .*", "fault_fleet_range", ("name",)),
    (r"serving.requests_at_once has a range; .*", "fault_one_value", ()),
    (rf"{_N} must be at least {_N}", "fault_least", ("value", "low")),
    (rf"{_N} must be at most {_N}", "fault_most", ("value", "high")),
    (r"(\S+) is not one of the currencies (.*)", "fault_currency", ("name", "near")),
    (r"(\w+) to (\w+) needs no rate", "fault_no_rate", ("name", "near")),
    (r"the rate (\S+) must be a number above 0, not .*", "fault_rate", ("name",)),
    (r"(\S+) is no rate between two currencies; .*", "fault_rate_digits", ("name",)),
    (r"(\S+) would make a lira worth more than .*; write it as (.*)", "fault_rate_round", ("name", "near")),
    (r"(\S+) is not a kind of rate; .*", "fault_rate_side", ("name",)),
    (r"the rate (\S+) needs a source.*", "fault_rate_source", ("name",)),
    (r"the rate (\S+) of (\S+) is in the future .*", "fault_rate_future", ("name", "near")),
    (r"(.*) is (?:not a day|not a date written) .*", "fault_day", ("name",)),
    (rf"(.*) takes {_N} kW idle and only {_N} busy", "fault_idle", ("name", "low", "high")),
    (rf"(.*) takes up to {_N} kW idle and from {_N} kW busy; .*", "fault_idle_range", ("name", "low", "high")),
    (
        rf"{_N} is .* %.*; write (?={_N} ){_N} for \S+ %, and at most {_N}", "must_rate",
        ("value", "decimal", "instead", "most"),
    ),
    (
        rf"(.*): at no point of its load curve does (\w+) decoding keep P95 within {_N} s; .*",
        "fault_p95", ("name", "arm", "seconds"),
    ),
    (r"there is nothing to pay; .*", "fault_no_option", ()),
    (r"two options are called (.*); give each a name of its own", "fault_twice", ("name",)),
    (r"a load curve needs both arms, .*", "fault_curve", ()),
    (r"there is no number called (.*?); the nearest is (.*)", "fault_nearest", ("name", "near")),
    (r"there is no number called (.*?); .*", "fault_no_number", ("name",)),
    (rf"{_N} is [0-9,.]+ %.*; write .* at most {_N}", "must_rate", ("value", "high")),
    (r"(\w+) is a yes or no; .*", "fault_yes_no", ("name",)),
    (r"(\S+) is beyond what a scenario can hold; .*", "fault_beyond", ("name",)),
    (r"(.*) is none that there is; write (.*)", "fault_choice", ("name", "near")),
    (r"it is blank; .*", "fault_blank", ()),
    (r"it holds (U\+\w+), which cannot be shown; .*", "fault_unshown", ("name",)),
    (r"it is longer than (\d+) characters; .*", "fault_long", ("name",)),
    (r"it is empty; .*", "fault_empty", ()),
    (r"(.*) is not a finite number.*|(.*) is not a number", "fault_number", ("name",)),
    (r"(.*) is not a whole number", "fault_whole_number", ("name",)),
    (r"(.*) is not a text; .*", "fault_text", ("name",)),
    (r"(.*) is not a (?:list|table).*", "fault_shape", ("name",)),
    (r"Field required|it is missing", "fault_missing", ()),
    (r"there is no such entry; the nearest is (.*)", "fault_extra_near", ("near",)),
    (r"Extra inputs are not permitted|there is no such entry; .*", "fault_extra", ()),
)  # fmt: skip

# Of a file as a whole.
_REFUSED = (
    (r"(?P<file>.*) is not TOML: (?P<detail>.*)", "load_not_toml"),
    (r"(?P<file>.*) is not UTF-8 text", "load_not_text"),
    (r"(?P<file>.*) has (?:more than )?[0-9,]+ bytes; .*", "load_large"),
    (r"no scenario is called (?P<file>.*)", "load_unknown"),
)


def told(sentence: str, path: str, words: Words) -> str:
    """One of pricing's sentences for a reader; in pricing's own English where the catalogues have none."""
    for demand, key in _MUST.items():
        if sentence.endswith(f" must be {demand}"):
            return words(key, value=_shown(sentence.split(" must be ")[0], path, words))
    case = re.fullmatch(r"(best|worst): (?:([\w.]+): )?(.*)", sentence, re.DOTALL)
    if case:
        where = f"{place(case[2], words)}: " if case[2] else ""
        return words("fault_case", case=words(f"case_{case[1]}"), fault=where + told(case[3], case[2] or path, words))
    for pattern, key, names in _SAID:
        found = re.fullmatch(pattern, sentence, re.DOTALL)
        if found:
            said = zip(names, found.groups(), strict=False)  # a group of no name is not shown
            return words(key, **{name: _said(name, text, path, words) for name, text in said})
    return sentence


def place(path: str, words: Words) -> str:
    """The number's name, and the path as the file has it where that says more."""
    name = label(path, words)
    return name if name != path else path or words("fault_whole")


def file_told(message: str, words: Words) -> str:
    """A ScenarioError in one sentence: the first fault, and how many more there are."""
    for pattern, key in _REFUSED:
        found = re.fullmatch(pattern, message, re.DOTALL)
        if found:
            return words(key, **{name: text.split("\n")[0] for name, text in found.groupdict().items()})
    first, *more = message.split("\n")
    file, _, fault = first.partition(", ")
    path, _, sentence = fault.partition(": ")
    if sentence and re.fullmatch(r"[\w.]+|as a whole", path):
        first = words("load_fault", file=file, place=place(path, words), fault=told(sentence, path, words))
    else:
        first = words("load_refused", fault=first)
    if not more:
        return first
    return f"{first} {words('load_more_one') if len(more) == 1 else words('load_more', n=len(more))}"


def _said(name: str, text: str, path: str, words: Words) -> str:
    if name == "arm":
        return words.name("arm", text)
    if name == "kind":
        return words.name("label", text)
    if name == "seconds":
        return number(float(text), words)
    return text if name in ("name", "near", "decimal") else _shown(text, path, words)


def _shown(text: str, path: str, words: Words) -> str:
    try:
        value = float(text)
    except ValueError:
        return text
    return percent(value, words) if is_share(path) else number(value, words, significant=6)
