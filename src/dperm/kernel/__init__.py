"""The only code that touches rows and adds noise. Solvers cannot import it (see pyproject, import-linter)."""
