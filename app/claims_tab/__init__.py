"""The Claims tab: published claims with their derivations, and "check my claim"."""
