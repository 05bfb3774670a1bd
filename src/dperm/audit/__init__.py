"""Attacks on a plan: empirical lower bounds on ε beside the proved upper bound. See docs/audit.md."""

from dperm.audit.one_run import audit_table
from dperm.audit.picture import draw_audit
from dperm.audit.plan import audit_plan
from dperm.audit.result import Attack, AuditResult, read_audit

__all__ = ["Attack", "AuditResult", "audit_plan", "audit_table", "draw_audit", "read_audit"]
