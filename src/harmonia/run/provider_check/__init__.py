"""What a provider can do, and what it does wrong."""

from harmonia.run.provider_check.outcomes import Outcome, Report, Verdict
from harmonia.run.provider_check.runner import CHECKS, NAMES, Check, check, check_each

__all__ = ["CHECKS", "NAMES", "Check", "Outcome", "Report", "Verdict", "check", "check_each"]
