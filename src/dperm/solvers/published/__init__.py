"""Printed forms and published noise: for reproduction, never for release."""
