"""Methods that release Hessians."""
