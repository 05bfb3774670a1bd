"""Releases as files."""
