"""One page about a release, for the people who have to decide whether it may go out."""

from dperm.release.report.page import page_beside, render_report, write_report

__all__ = ["page_beside", "render_report", "write_report"]
