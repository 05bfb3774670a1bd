"""From the options of a fit to its plan, and from the plan to a release."""
