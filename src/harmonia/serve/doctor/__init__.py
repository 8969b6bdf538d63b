"""What of a set-up works, what does not, and what to do about it."""

from harmonia.serve.doctor.checks import examine, examine_server
from harmonia.serve.doctor.findings import Finding, Verdict

__all__ = ["Finding", "Verdict", "examine", "examine_server"]
