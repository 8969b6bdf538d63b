"""What a provider can do, and what it does wrong."""

from harmonia.run.provider_check.runner import CHECKS, KINDS, NAMES, Check, check, check_each
from harmonia.run.provider_check.session import Outcome, Report, Verdict

__all__ = ["CHECKS", "KINDS", "NAMES", "Check", "Outcome", "Report", "Verdict", "check", "check_each"]
