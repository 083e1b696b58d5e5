"""The two files of claims: what is wrong in them is told with file, line and column."""

import csv

import pytest

from pricing.claims import load_claims, shipped_claims
from pricing.claims.table import DEFAULT_CLAIMS, DEFAULT_INPUTS
from pricing.faults import PriceError


def written(tmp_path, file, name, edit):
    rows = list(csv.reader(file.read_text(encoding="utf-8").splitlines()))
    target = tmp_path / name
    with target.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows(edit(rows))
    return target


def with_cell(line, column, value):
    def edit(rows):
        rows[line - 1][rows[0].index(column)] = value
        return rows

    return edit


@pytest.mark.parametrize(
    ("line", "column", "value", "said"),
    [
        (2, "id", "A!", r"line 2, column id: 'A!' is not an id"),
        (3, "id", "a", r"line 3, column id: a is used on line 2"),
        (2, "origin", "rumour", r"line 2, column origin: 'rumour' is not one of article, published"),
        (2, "claim", " ", r"line 2, column claim: the cell is blank"),
        (2, "date", "26-1", r"line 2, column date: '26-1' is not a date"),
        (2, "rule", "guess", r"line 2, column rule: 'guess' is not one of"),
        (13, "compares_with", "zz", r"line 13, column compares_with: there is no claim 'zz'"),
        (2, "machine", "", r"line 2, column machine: the cell is blank; say whether the machine is stated"),
        (2, "evidence_url", "", r"line 2, column evidence_url: the cell is blank; what documents say"),
        (2, "evidence_url", "ftp://x.org", r"line 2, column evidence_url: .* is not a web address"),
        (2, "evidence", "Z", r"line 2, column evidence: 'Z' is not one of F, D, I, S"),
        (2, "gpus", "1.5", r"line 2, column gpus: '1.5' is not a whole number"),
        (2, "rule", "payback", r"line 2, column rule: claim a has no one_off_usd"),
    ],
)  # fmt: skip
def test_a_wrong_claim_is_refused_with_file_line_and_column(tmp_path, line, column, value, said):
    file = written(tmp_path, DEFAULT_CLAIMS, "mine.csv", with_cell(line, column, value))
    with pytest.raises(PriceError, match=rf"mine\.csv has .*{said}"):
        load_claims(file)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("value", "3,26", "is not a plain positive number"),
        ("value", "0", "must be above 0"),
        ("value", "nan", "is not a plain positive number"),
        ("label", "measured", "is not one of quoted, assumed"),
        ("claim", "zz", "there is no claim 'zz'"),
    ],
)
def test_a_wrong_number_is_refused_with_file_line_and_column(tmp_path, column, value, said):
    file = written(tmp_path, DEFAULT_INPUTS, "numbers.csv", with_cell(2, column, value))
    with pytest.raises(PriceError, match=rf"numbers\.csv has .*line 2, column {column}: .*{said}"):
        load_claims(inputs=file)


def test_an_assumed_number_must_say_why_and_none_may_be_there_twice(tmp_path):
    silent = written(tmp_path, DEFAULT_INPUTS, "n.csv", with_cell(2, "label", "assumed"))
    with pytest.raises(PriceError, match=r"line 2, column source: .* says why"):
        load_claims(inputs=silent)
    twice = written(tmp_path, DEFAULT_INPUTS, "n.csv", lambda rows: [*rows[:2], *rows[1:]])
    with pytest.raises(PriceError, match=r"line 3, column at: plain_tokens_per_second at '' is there twice for a"):
        load_claims(inputs=twice)


def test_an_unknown_or_missing_column_is_refused(tmp_path):
    file = written(tmp_path, DEFAULT_CLAIMS, "m.csv", lambda rows: [[*row[:-1], f"x{row[-1]}"] for row in rows])
    with pytest.raises(PriceError, match=r"line 1, column evidence_url: the column is missing"):
        load_claims(file)


def test_the_table_has_one_hash_over_both_files(tmp_path):
    same = load_claims(DEFAULT_CLAIMS, DEFAULT_INPUTS)
    assert same.sha256 == shipped_claims().sha256
    other = written(tmp_path, DEFAULT_INPUTS, "n.csv", with_cell(2, "value", "39"))
    assert load_claims(inputs=other).sha256 != same.sha256
