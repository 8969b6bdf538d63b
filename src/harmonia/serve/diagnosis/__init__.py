"""What of a set-up works, what does not, and what to do about it."""

from harmonia.serve.diagnosis.examination import examine, examine_server
from harmonia.serve.diagnosis.findings import Finding, Verdict

__all__ = ["Finding", "Verdict", "examine", "examine_server"]
