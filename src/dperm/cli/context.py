"""Settings of every command."""

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
