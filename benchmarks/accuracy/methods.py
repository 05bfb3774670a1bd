"""Who is compared, under which adjacency, and what was not run."""

DELTA = 1e-5
EPSILONS = (0.5, 1.0, 2.0, 8.0)
SEEDS = range(5)

# Each under the adjacency of its own analysis. diffprivlib promises δ = 0.
ADJACENCIES = {
    "dperm": ("replace_one", "add_remove"),
    "DP-EBM": ("add_remove",),
    "diffprivlib": ("replace_one",),
    "DP-SGD": ("add_remove",),
}
PEERS = ("DP-EBM", "diffprivlib", "DP-SGD")
CEILINGS = ("linear", "linear, binned", "boosting")
METHODS = (*ADJACENCIES, *CEILINGS)


def not_run(method: str, data: str) -> str:
    """Why a method has no number on a table; empty if it has one."""
    if method == "DP-EBM" and data in ("covertype-7", "letter"):
        return "DP-EBM has two classes, or a regression."
    if method == "DP-EBM" and data == "rcv1":
        return "DP-EBM shares its budget among the columns: 47 236 of them leave nothing for 1000 rows."
    if method == "linear, binned" and data in ("rcv1", "a9a"):
        return "RCV1 and a9a are arrays without a schema, so there is nothing to bin."
    if method == "boosting" and data == "rcv1":
        return "Boosting takes dense rows: it was not run on 47 236 columns."
    return ""
