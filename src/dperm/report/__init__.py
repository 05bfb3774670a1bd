"""Pages for the people who have to decide: about a release, and about a whole budget."""

from dperm.report.budget_page import page_named, render_budget, write_budget
from dperm.report.page import page_beside, render_report, write_report

__all__ = ["page_beside", "page_named", "render_budget", "render_report", "write_budget", "write_report"]
