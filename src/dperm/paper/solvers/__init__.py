"""Methods that the paper compares with and that "auto" never chooses."""
