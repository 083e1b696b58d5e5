"""The run store: what was measured, on what, with which versions, kept across processes and machines.

SQLite in the user's data folder (`SPECSCOPE_DATA` moves it), or PostgreSQL by `SPECSCOPE_DATABASE_URL`.
"""

from engine.runs.codec import hardware_hash
from engine.runs.records import KINDS, STATUSES, Kind, Run, Status
from engine.runs.store import RunStore

__all__ = ["KINDS", "STATUSES", "Kind", "Run", "RunStore", "Status", "hardware_hash"]
