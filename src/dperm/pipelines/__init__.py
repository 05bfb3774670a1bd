"""Several steps under one guarantee, and what pipelines of scikit-learn do with rows."""
