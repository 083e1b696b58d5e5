"""What a derivation's formula comes to, evaluated as the plain arithmetic that it is."""

import math


def evaluated(step, values):
    """values: of steps and inputs by their names."""
    formula = step.formula
    for name in sorted(step.uses, key=len, reverse=True):
        formula = formula.replace(name, f"V[{name!r}]") if "." in name else formula
    scope = {
        "V": values,
        "ceil": lambda n: math.ceil(n - 1e-9),
        "floor": lambda n: math.floor(n + 1e-9),
        **{name: value for name, value in values.items() if "." not in name},
    }
    return eval(formula, scope)
