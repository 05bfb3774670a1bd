"""The paper's printed forms, its comparison methods and its studies."""
