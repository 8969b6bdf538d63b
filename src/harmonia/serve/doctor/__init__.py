"""What of a set-up works, what does not, and what to do about it."""

from harmonia.serve.doctor.checks import examine
from harmonia.serve.doctor.findings import Finding, Verdict
from harmonia.serve.doctor.live_server import examine_server

__all__ = ["Finding", "Verdict", "examine", "examine_server"]
