"""Published claims and a person's own: what each implies, what arithmetic, roofline and sources say, and a verdict."""

from pricing.claims.assess import Assessment, assess, assess_all, speeds
from pricing.claims.bounds import Bound, Projected
from pricing.claims.check import Checked, check_claim
from pricing.claims.check_input import ClaimInput
from pricing.claims.derivation import Given, Step
from pricing.claims.limits import Limit
from pricing.claims.rows import EVIDENCE
from pricing.claims.table import Claim, ClaimError, ClaimTable, load_claims, shipped_claims
from pricing.claims.verdicts import MEANING, VERDICTS, Decision, Finding, Verdict, decide

__all__ = [
    "EVIDENCE",
    "MEANING",
    "VERDICTS",
    "Assessment",
    "Bound",
    "Checked",
    "Claim",
    "ClaimError",
    "ClaimInput",
    "ClaimTable",
    "Decision",
    "Finding",
    "Given",
    "Limit",
    "Projected",
    "Step",
    "Verdict",
    "assess",
    "assess_all",
    "check_claim",
    "decide",
    "load_claims",
    "shipped_claims",
    "speeds",
]
