"""Pictures of released models and of plans: drawn from coefficients, schemas and public numbers, never from rows."""
