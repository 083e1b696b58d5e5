"""The Cost and TCO tabs: a scenario in, its arithmetic by `pricing`, every number with its derivation."""
