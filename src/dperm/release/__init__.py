"""What is released: the statement, the assumptions, the model file, its verification and its report."""
